// SPDX-License-Identifier: GPL-2.0

//! The guest half of DoubleDecker: clean file pages that reclaim drops go to the host, and come
//! back when they are read again.
//!
//! - [`hooks`]: where the kernel calls us; pages out and in;
//! - [`host`]: the session, hypercalls, the background job;
//! - [`pools`]: whose pages they are, and what of them is worth a put;
//! - [`filesystems`]: files they are of; [`map`]: what the host may hold;
//! - [`control`]: netlink; [`ffi`] and `shim/`: everything C.
//!
//! Locks and contexts: `docs/locking.md`.

#![crate_name = "doubledecker_guest"]

mod control;
mod counters;
mod ffi;
mod filesystems;
#[path = "../../shim/genl.rs"]
mod genl;
mod hooks;
mod host;
mod lock;
mod map;
#[path = "../../shim/memory.rs"]
mod memory;
#[path = "../../shim/mutation.rs"]
mod mutation;
#[path = "../../shim/number.rs"]
mod number;
mod pools;
mod state;

use crate::ffi::machine;
use crate::ffi::worker::Worker;
use crate::host::session;
use crate::state::{State, STATE};
use core::borrow::Borrow;
use kernel::prelude::*;

module! {
    type: Module,
    name: "doubledecker_guest",
    authors: ["DoubleDecker developers"],
    description: "Second-chance cache of clean file pages, kept by the KVM host (guest half)",
    license: "GPL",
    params: {
        map_mib: u64 {
            default: 0,
            description: "Bound of the presence map in MiB (0: 1/64 of memory, at least 8)",
        },
        history_kib: u64 {
            default: 0,
            description: "Bound of what all containers remember in KiB (0: 1/256 of memory, at least 4096)",
        },
    },
}

/// Version shown to users.
const VERSION: &str = "0.1.0";

/// The module, in the order things are undone.
struct Module {
    worker: Option<Worker>,
    family: Option<genl::Family>,
    state: Pin<KBox<State>>,
}

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // Spinlocks sleep there: a task that waits for one comes back with interrupts on, perhaps on
        // another CPU, and would use a request block that belongs to that CPU.
        if cfg!(CONFIG_PREEMPT_RT) {
            pr_err!("kernels with PREEMPT_RT are not supported: refused\n");
            return Err(EPERM);
        }
        if machine::is_confidential() {
            pr_err!("the memory of a confidential guest must not go to the host: refused\n");
            return Err(EPERM);
        }
        if !machine::is_kvm_guest() {
            pr_err!("this machine is no KVM guest: load doubledecker_host on hosts\n");
            return Err(ENODEV);
        }
        let map = parameter(module_parameters::map_mib.value());
        let history = parameter(module_parameters::history_kib.value());
        let state = State::new(map << 20, history << 10)?;
        // SAFETY: The state is boxed and outlives family, worker and hooks, see `drop`.
        unsafe { STATE.publish(&state) };
        let mut module = Self {
            worker: None,
            family: None,
            state,
        };
        module.family = Some(genl::Family::register()?);
        module.worker = Some(Worker::start());
        Ok(module)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // The worker sends events, for which the family must be there.
        self.worker = None;
        self.family = None;
        session::shut_down(&self.state);
        STATE.withdraw();
    }
}

/// The value of a parameter: kernel 7.2 lends it, 7.3 gives a copy.
fn parameter(value: impl Borrow<u64>) -> u64 {
    *value.borrow()
}
