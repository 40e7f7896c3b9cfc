// SPDX-License-Identifier: GPL-2.0-only

//! Flags of allocations that may sleep, compiled into both modules (`#[path]`).

use kernel::alloc::{flags::__GFP_NOWARN, Flags};
use kernel::prelude::*;

/// Returns the flags of an allocation that may sleep and may fail. The caller handles the failure,
/// so that the kernel does not log it.
pub(crate) fn quietly() -> Flags {
    GFP_KERNEL | __GFP_NOWARN
}
