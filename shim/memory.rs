// SPDX-License-Identifier: GPL-2.0-only

//! Flags of allocations that may fail, compiled into both modules (`#[path]`).

use kernel::alloc::flags::{__GFP_NOWARN, GFP_NOWAIT};
use kernel::alloc::Flags;
use kernel::prelude::*;

/// Returns the flags of an allocation that may sleep and may fail. The caller handles the failure,
/// so that the kernel does not log it.
pub(crate) fn gfp_nowarn() -> Flags {
    GFP_KERNEL | __GFP_NOWARN
}

/// Returns the flags of an allocation that neither sleeps nor waits for memory, and may fail.
#[allow(dead_code, reason = "the guest module has no such allocation")]
pub(crate) fn without_waiting() -> Flags {
    GFP_NOWAIT | __GFP_NOWARN
}
