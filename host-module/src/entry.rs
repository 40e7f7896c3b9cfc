// SPDX-License-Identifier: GPL-2.0-only

//! The functions that C calls, and the work that they queue.

use crate::call::dispatch;
use crate::ffi::kvm::{CallingVm, RawCall};
use crate::ffi::queue;
use crate::shrinker;
use crate::state::host;
use crate::vm::Vm;
use ddabi::hypercall::{Outcome, Status};
use ddcore::host::room::refill;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::WorkItem;

/// Called by kvm.c for every hypercall with the number of DoubleDecker.
///
/// # Safety
///
/// `call` is live, and the current thread is a vCPU of its VM inside KVM's run loop.
#[no_mangle]
unsafe extern "C" fn dd_host_call(call: *const RawCall) -> u64 {
    // SAFETY: By the function's contract.
    let call = unsafe { &*call };
    // SAFETY: By the function's contract.
    let guest = unsafe { CallingVm::of(call) };
    match host() {
        Some(host) => dispatch::call(host, &guest, call),
        None => Outcome::bare(Status::Stale).into_raw(),
    }
}

/// Called by kvm.c, in atomic context, with the key of a VM whose last reference was dropped.
///
/// # Safety
///
/// No vCPU of the VM runs or will run.
#[no_mangle]
unsafe extern "C" fn dd_host_vm_gone(key: u64) {
    let Some(host) = host() else { return };
    // SAFETY: By the function's contract.
    if let Some(vm) = unsafe { host.vms.table().remove(key as usize) } {
        // SAFETY: The queue lives as long as KVM is hooked, and this runs inside a hook.
        let queue = unsafe { queue::queue() };
        // It is not queued twice, because it was in the table only once.
        let _ = queue.enqueue(vm);
    }
}

/// Called by shrinker.c. Returns the number of pages that can be freed on a NUMA node.
#[no_mangle]
extern "C" fn dd_host_shrinkable(node: c_int) -> c_ulong {
    host().map_or(0, |host| shrinker::count_on(host, node as usize)) as c_ulong
}

/// Called by oom.c. Gives pages back before the OOM killer runs and returns their number.
#[no_mangle]
extern "C" fn dd_host_rescue() -> c_ulong {
    host().map_or(0, shrinker::rescue) as c_ulong
}

/// Called by queue.c. Evicts until the memory tier has room for the next puts.
#[no_mangle]
extern "C" fn dd_host_refill() {
    if let Some(host) = host() {
        refill(host);
    }
}

/// Called by shrinker.c. Gives up to `pages` pages back, of a NUMA node if possible and unless it
/// is negative, and returns their number.
#[no_mangle]
extern "C" fn dd_host_shrink(pages: c_ulong, node: c_int) -> c_ulong {
    let node = usize::try_from(node).ok();
    host().map_or(0, |host| shrinker::scan(host, pages as u64, node)) as c_ulong
}

impl WorkItem for Vm {
    type Pointer = Arc<Vm>;

    /// Removes the VM after KVM has destroyed it.
    fn run(this: Arc<Vm>) {
        this.leave();
        if let Some(host) = host() {
            host.vms.lock().remove(&this);
        }
        // A task that was choosing victims may have published an older standing since the session
        // ended. No task finds the VM any more.
        this.settle();
    }
}
