// SPDX-License-Identifier: GPL-2.0-only

//! The guest module: puts clean file pages that reclaim removes into the host's memory, and takes
//! them back when they are read. Each file imports only files of entries that are listed below its
//! own:
//!
//! - [`control`] (netlink), [`hooks`] (code that runs inside functions of the kernel),
//!   [`host::session`] and [`host::worker`] (the background job) use the whole state;
//! - [`state`] is the module's state and the operations that need several of its parts;
//! - [`pools`] (containers, routes, admission), [`map`] (pages that the host may hold),
//!   [`filesystems`], [`hooks::departures`], [`host::flushes`], [`host::attachment`] and
//!   [`host::schedule`] are its parts;
//! - [`host::channel`] makes calls to the host;
//! - [`ffi`] and `shim/` contain all C and its bindings, and [`lock`] and [`counters`] are used by
//!   all of the above.

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
#[path = "../../shim/number.rs"]
mod number;
mod pools;
#[path = "../../shim/published.rs"]
mod published;
mod state;
#[path = "../../shim/tracepoint.rs"]
mod tracepoint;

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
            description: "Largest size of the presence map in MiB (0: 1/64 of memory, at least 8)",
        },
        history_kib: u64 {
            default: 0,
            description: "Largest history of all containers in KiB (0: 1/256 of memory, at least 4096)",
        },
    },
}

/// The module.
struct Module {
    worker: Option<Worker>,
    state: Pin<KBox<State>>,
}

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // With PREEMPT_RT spinlocks sleep. A task that waited for one could continue with
        // interrupts enabled and on another CPU, and use a call buffer of that CPU together with
        // another task.
        if cfg!(CONFIG_PREEMPT_RT) {
            pr_err!("kernels with PREEMPT_RT are not supported: boot one without it\n");
            return Err(EPERM);
        }
        if machine::is_confidential() {
            pr_err!("the memory of a confidential VM must not go to the host: the module is not loaded\n");
            return Err(EPERM);
        }
        if !machine::is_kvm_guest() {
            pr_err!("not running under KVM: load doubledecker_host on hosts instead\n");
            return Err(ENODEV);
        }
        let map = parameter(module_parameters::map_mib.value());
        let history = parameter(module_parameters::history_kib.value());
        let state = State::new(map << 20, history << 10)?;
        // SAFETY: The state is boxed, and outlives worker, family and hooks, see `drop`.
        unsafe { STATE.publish(&state) };
        let mut module = Self {
            worker: None,
            state,
        };
        module.worker = Some(Worker::start(genl::Family::register()?));
        Ok(module)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // Neither the worker nor a netlink command may use the state that is shut down below.
        self.worker = None;
        session::shut_down(&self.state);
        STATE.withdraw();
    }
}

/// Returns the value of a parameter. Linux 7.2 returns a reference to it, and 7.3 a copy.
fn parameter(value: impl Borrow<u64>) -> u64 {
    *value.borrow()
}
