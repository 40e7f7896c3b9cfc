// SPDX-License-Identifier: GPL-2.0

//! The host half of DoubleDecker: a second-chance cache of guests' file pages, divided by weight
//! between VMs and inside each VM between its containers.
//!
//! A call comes in through [`dispatch`]; its words are checked by `ddcore::request`; its [`vm`],
//! found in the [`registry`], lets it in. [`operation`] carries it out on a [`session`], which is
//! an index in [`shard`]s and a number of [`pool`]s. What is done with its pages, and who gives if
//! there is no room for them, is decided by the engine, `ddcore::host`; this module has the locks
//! and the memory: the session, the [`registry`], and the memory [`tier`] with its [`page`]s and
//! [`stock`]. [`control`] is netlink, [`ffi`] and `shim/` are everything C.
//!
//! Lock order, outermost first:
//!
//! 1. `Session::control` (mutex): pools come and go; `Registry::last` (mutex): a VM comes;
//! 2. `Registry::roster` (mutex): the list of VMs, and the one eviction that runs. Memory reclaim
//!    takes it: its holder neither allocates nor waits for a task that does;
//! 3. `Vm::gate` (spin): session and sequence of a VM;
//! 4. `Shard::store` (spin): a part of the index. Never two at once, never with `Vm::gate`;
//! 5. `Session::notices`, `Session::unflushed`, `Pool::name`, `Desks::free`, `Vm::events`,
//!    `Stock::pages` (spin): innermost.
//!
//! All of them are taken in process context only; the hook of `kvm_arch_pre_destroy_vm`, which runs
//! with preemption off, takes none. Page data is copied, and memory allocated and freed, without
//! spinlocks.

#![crate_name = "doubledecker_host"]

mod allowance;
mod answer;
mod charge;
mod control;
mod counters;
mod desk;
mod dispatch;
mod ffi;
#[path = "../../shim/genl.rs"]
mod genl;
mod get;
mod host;
#[path = "../../shim/memory.rs"]
mod memory;
#[path = "../../shim/number.rs"]
mod number;
mod operation;
mod page;
mod pool;
mod put;
mod registry;
mod session;
mod shard;
mod shrinker;
mod stats;
mod stock;
mod tier;
mod vm;

use crate::host::Host;
use crate::registry::Admission;
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

/// Version shown to users.
const VERSION: &str = "0.1.0";

/// Pages in a MiB.
const MIB: u64 = 256;

/// The module. Fields are dropped from the first to the last: callers of the module are stopped
/// before the state they work on is dropped.
struct Module {
    _hooks: ffi::KvmHooks,
    _queue: ffi::WorkQueue,
    _rescue: ffi::Rescue,
    _shrinker: ffi::Shrinker,
    _family: genl::Family,
    _publication: ffi::Publication,
    _host: Pin<KBox<Host>>,
}

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // Spinlocks sleep there, and the module has not been tried with such locks.
        if cfg!(CONFIG_PREEMPT_RT) {
            pr_err!("kernels with PREEMPT_RT are not supported: refused\n");
            return Err(EPERM);
        }
        let capacity = capacity(number(module_parameters::capacity_mib.value()))?;
        let host = Host::new(capacity, admission()?)?;
        // SAFETY: Declared behind `host` here, so dropped before it if something below fails, and
        // before it in `Module`; hooks, queue, shrinker and family, which call back, end earlier
        // still.
        let publication = unsafe { ffi::Publication::new(&host) };
        let family = genl::Family::register()?;
        ffi::like_reclaim(|| drop(host.vms.lock()));
        let shrinker = ffi::Shrinker::register()?;
        let rescue = ffi::Rescue::register()?;
        let queue = ffi::WorkQueue::create()?;
        let hooks = ffi::KvmHooks::attach()?;
        pr_info!("capacity {} MiB\n", host.tier.capacity() / MIB);
        Ok(Self {
            _hooks: hooks,
            _queue: queue,
            _rescue: rescue,
            _shrinker: shrinker,
            _family: family,
            _publication: publication,
            _host: host,
        })
    }
}

/// The tier's capacity in pages, from the module parameter.
fn capacity(mib: u64) -> Result<u64> {
    let total = ffi::total_pages();
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

/// Who may register, from the module parameters.
fn admission() -> Result<Admission> {
    let (most, weight) = ffi::admission_parameters();
    if weight > MAX_WEIGHT {
        pr_err!("default_weight={} is above {}\n", weight, MAX_WEIGHT);
        return Err(ERANGE);
    }
    Ok(Admission { most, weight })
}

/// The value of a parameter: kernel 7.2 lends it, 7.3 gives a copy.
fn number(value: impl Borrow<u64>) -> u64 {
    *value.borrow()
}
