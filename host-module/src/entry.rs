// SPDX-License-Identifier: GPL-2.0-only

//! The functions that C calls, and the work that they queue.

use crate::call::dispatch;
use crate::ffi::kvm::{CallingVm, RawCall};
use crate::ffi::queue;
use crate::shrinker;
use crate::state::host;
use crate::vm::Vm;
use core::ffi::c_void;
use ddabi::hypercall::{Outcome, Status};
use ddcore::host::room::refill;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::workqueue::WorkItem;

/// Called by kvm.c for every call with our number.
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

/// Called by kvm.c when a VM has no users any more, in atomic context.
///
/// # Safety
///
/// No vCPU of `kvm` runs or will run.
#[no_mangle]
unsafe extern "C" fn dd_host_vm_gone(kvm: *mut c_void) {
    let Some(host) = host() else { return };
    // SAFETY: By the function's contract.
    if let Some(vm) = unsafe { host.vms.table().remove(kvm as usize) } {
        // SAFETY: The queue lives as long as KVM is hooked, which is how we came here.
        let queue = unsafe { queue::queue() };
        // Not queued twice: it was in the table once.
        let _ = queue.enqueue(vm);
    }
}

/// Called by shrinker.c: how many pages could be given back.
#[no_mangle]
extern "C" fn dd_host_shrinkable() -> c_ulong {
    host().map_or(0, shrinker::count) as c_ulong
}

/// Called by oom.c: gives pages back before a task is killed for memory, and returns their number.
#[no_mangle]
extern "C" fn dd_host_rescue() -> c_ulong {
    host().map_or(0, shrinker::rescue) as c_ulong
}

/// Called by queue.c: evicts until the tier has room for the next puts.
#[no_mangle]
extern "C" fn dd_host_refill() {
    if let Some(host) = host() {
        refill(host);
    }
}

/// Called by shrinker.c: gives pages back and returns their number.
#[no_mangle]
extern "C" fn dd_host_shrink(pages: c_ulong) -> c_ulong {
    host().map_or(0, |host| shrinker::scan(host, pages as u64)) as c_ulong
}

impl WorkItem for Vm {
    type Pointer = Arc<Vm>;

    /// The VM is gone: KVM has destroyed it.
    fn run(this: Arc<Vm>) {
        this.leave();
        if let Some(host) = host() {
            host.vms.lock().remove(&this);
        }
    }
}
