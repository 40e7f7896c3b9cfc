// SPDX-License-Identifier: GPL-2.0-only

//! The kernel module of a hostile guest: it sends the host everything that a guest can send.
//!
//! Each processor has a [`worker`] that composes random requests ([`draft`], [`grammar`],
//! [`random`]) and sends them. The answers must be documented statuses, pages that are returned
//! must be those that were put, and the guest itself must not be damaged: all memory that the host
//! is asked to write is in an arena that this kernel does not use (`memmap=` on its command line).
//!
//! Results are module parameters (`shim/workers.c`): `running` falls to zero at the end.

#![crate_name = "doubledecker_hostile"]

mod draft;
mod ffi;
mod grammar;
mod plan;
mod random;
mod tally;
mod worker;

use core::borrow::Borrow;
use kernel::prelude::*;

module! {
    type: Module,
    name: "doubledecker_hostile",
    authors: ["DoubleDecker developers"],
    description: "Sends a DoubleDecker host whatever a guest can send",
    license: "GPL",
    params: {
        base: u64 {
            default: 0,
            description: "Guest-physical address of memory that the kernel leaves alone",
        },
        size: u64 {
            default: 0,
            description: "Its size in bytes, at least 16 MiB",
        },
        seed: u64 {
            default: 1,
            description: "Seed of all random numbers",
        },
        requests: u64 {
            default: 1000000,
            description: "Requests to send, over all processors",
        },
        mode: u64 {
            default: 0,
            description: "Kind of requests, 1 to 9; 0 mixes 1 to 8 (src/grammar.rs)",
        },
        moving_base: u64 {
            default: 0,
            description: "Guest-physical address of hot-plugged memory, for mode 9",
        },
        moving_size: u64 {
            default: 0,
            description: "Its size; the kernel must not use it, nor have memory behind it",
        },
    },
}

/// The module. The workers end before their memory is freed.
struct Module {
    _workers: ffi::Workers,
    _arena: ffi::Arena,
}

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let (base, size) = (
            number(module_parameters::base.value()),
            number(module_parameters::size.value()),
        );
        plan::set(
            base,
            size,
            number(module_parameters::seed.value()),
            number(module_parameters::requests.value()),
            number(module_parameters::mode.value()),
        )?;
        plan::set_moving(
            number(module_parameters::moving_base.value()),
            number(module_parameters::moving_size.value()),
        );
        let arena = ffi::Arena::map(base, size)?;
        Ok(Self {
            _workers: ffi::Workers::start()?,
            _arena: arena,
        })
    }
}

/// Returns the value of a parameter, which kernel 7.2 lends and 7.3 copies.
fn number(value: impl Borrow<u64>) -> u64 {
    *value.borrow()
}
