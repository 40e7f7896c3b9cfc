// SPDX-License-Identifier: GPL-2.0-only

//! The host half of DoubleDecker: a second-chance cache of guests' file pages, divided by weight
//! between VMs, and within each VM between its containers.
//!
//! - [`entry`] (functions that C calls), [`control`] (netlink), [`shrinker`] (memory reclaim) and
//!   [`call`] (the calls of guests) use the whole state, and [`stats`] collects its statistics;
//! - [`state`] is the module's state: the memory tier and the VMs. The engine, `ddcore::host`,
//!   decides about pages and evictions; this module provides the locks and the memory;
//! - [`vm`] is a VM with its session, which has pools and an index divided into shards;
//! - [`tier`] is the memory tier with its pages, and [`ssd`] the SSD tier;
//! - [`ffi`] and `shim/` are the interface to C, [`counters`] has the module's counters, and
//!   [`stripe`] chooses among copies of data by processor.
//!
//! Lock order, outermost first:
//!
//! 1. `Session::control` (mutex): creation and removal of pools; `Registry::last` (mutex):
//!    registration of VMs; `Host::settings` (mutex): settings of the tier; `Ssd::control` (mutex):
//!    devices;
//! 2. `Registry::vm_list` (mutex): the list of VMs, and the choice of victims among them. Memory
//!    reclaim takes it. Its holder therefore neither allocates nor waits for a task that does;
//! 3. `Session::entities` (mutex): evictions of a session. Memory reclaim takes it as well;
//! 4. `Vm::current_session` (spin): session and sequence of a VM;
//! 5. `Shard::index` (spin): a part of the index. A task never holds two of these at once, and none
//!    together with `Vm::current_session`;
//! 6. `Deferrals::list` (spin): deferred gets; no other lock is taken under it. `Log::open` (spin):
//!    the segment that a pool fills;
//!    `Ssd::devices` and `DeviceTable::devices` (spin): the devices. The latter exists once for
//!    each stripe of processors; two of them are never held at once;
//! 7. `Segment::inner` (spin): a segment of a device;
//! 8. `Session::notices`, `Session::unfinished`, `Pool::name`, `ScratchList::free`, `Vm::events`,
//!    `Stock::pages`, `Device::free`, `Device::queue`, `Device::opened` (spin): innermost.
//!
//! All of them are taken in process context only; the hook of `kvm_arch_pre_destroy_vm`, which runs
//! with preemption off, takes none. Page data is copied, and memory allocated and freed, without
//! spinlocks.

#![crate_name = "doubledecker_host"]

mod call;
mod control;
mod counters;
mod entry;
mod ffi;
#[path = "../../shim/genl.rs"]
mod genl;
#[path = "../../shim/memory.rs"]
mod memory;
#[path = "../../shim/number.rs"]
mod number;
#[path = "../../shim/published.rs"]
mod published;
mod shrinker;
mod ssd;
mod state;
mod stats;
mod stripe;
mod tier;
#[path = "../../shim/tracepoint.rs"]
mod tracepoint;
mod vm;

use crate::ffi::kvm::KvmHooks;
use crate::ffi::oom::OomNotifier;
use crate::ffi::page::{self, NodeCounters};
use crate::ffi::param;
use crate::ffi::queue::{PendingWork, UnloadGuard, WorkQueue};
use crate::ffi::shrinker::{like_reclaim, Shrinker};
use crate::state::{Host, STATE};
use crate::vm::registry::Admission;
use core::borrow::Borrow;
use ddabi::pool::MAX_WEIGHT;
use kernel::prelude::*;

module! {
    type: Module,
    name: "doubledecker_host",
    authors: ["DoubleDecker developers"],
    description: "Second-chance cache of guests' clean file pages (KVM host half)",
    license: "GPL",
    params: {
        capacity_mib: u64 {
            default: 0,
            description: "Capacity of the memory tier in MiB (0: a quarter of memory)",
        },
    },
}

/// Pages in a MiB.
const MIB: u64 = 256;

/// Makes the state accessible to callbacks until this is dropped.
struct Publication(());

impl Publication {
    /// Publishes the state.
    ///
    /// # Safety
    ///
    /// The result is dropped before the state, at a time when no callback runs.
    unsafe fn new(host: &Host) -> Self {
        // SAFETY: By the function's contract.
        unsafe { STATE.publish(host) };
        Self(())
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        STATE.withdraw();
    }
}

/// The module. Fields are dropped from the first to the last, so that all callers of the module are
/// stopped before the state that they use is dropped.
struct Module {
    _unload_guard: UnloadGuard,
    _hooks: KvmHooks,
    _work: PendingWork,
    _oom_notifier: OomNotifier,
    _shrinker: Shrinker,
    _family: genl::Family,
    _queue: WorkQueue,
    _publication: Publication,
    _host: Pin<KBox<Host>>,
    _counters: NodeCounters,
}

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // Spinlocks sleep on such kernels, for which the module is neither designed nor tested.
        if cfg!(CONFIG_PREEMPT_RT) {
            pr_err!("kernels with PREEMPT_RT are not supported: boot one without it\n");
            return Err(EPERM);
        }
        let capacity = capacity(number(module_parameters::capacity_mib.value()))?;
        let counters = NodeCounters::new()?;
        let host = Host::new(capacity, admission()?)?;
        // SAFETY: Declared behind `host` here, so dropped before it if something below fails, and
        // before it in `Module`; hooks, queue, shrinker and family, which call back, end earlier
        // still.
        let publication = unsafe { Publication::new(&host) };
        let queue = WorkQueue::create()?;
        // SAFETY: Dropped before `queue`, here and in `Module`.
        let pending = unsafe { PendingWork::new() };
        let family = genl::Family::register()?;
        like_reclaim(|| drop(host.vms.lock()));
        let shrinker = Shrinker::register()?;
        let oom_notifier = OomNotifier::register()?;
        let hooks = KvmHooks::attach()?;
        pr_info!("capacity {} MiB\n", host.tier.capacity() / MIB);
        Ok(Self {
            _unload_guard: UnloadGuard,
            _hooks: hooks,
            _work: pending,
            _oom_notifier: oom_notifier,
            _shrinker: shrinker,
            _family: family,
            _queue: queue,
            _publication: publication,
            _host: host,
            _counters: counters,
        })
    }
}

/// Returns the capacity of the tier in pages, from the module parameter.
fn capacity(mib: u64) -> Result<u64> {
    let total = page::total();
    if mib == 0 {
        return Ok(total / 4);
    }
    let pages = mib.saturating_mul(MIB);
    if pages > total {
        pr_err!("capacity_mib={} is above the memory of this machine\n", mib);
        return Err(ERANGE);
    }
    Ok(pages)
}

/// Returns the rules for registration, from the module parameters.
fn admission() -> Result<Admission> {
    let (max_vms, weight) = param::admission();
    if weight > MAX_WEIGHT {
        pr_err!("default_weight={} is above {}\n", weight, MAX_WEIGHT);
        return Err(ERANGE);
    }
    Ok(Admission { max_vms, weight })
}

/// Returns the value of a parameter. Linux 7.2 returns a reference to it, and 7.3 a copy.
fn number(value: impl Borrow<u64>) -> u64 {
    *value.borrow()
}
