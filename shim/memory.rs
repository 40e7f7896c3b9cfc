// SPDX-License-Identifier: GPL-2.0

//! How both modules allocate where they may sleep, compiled into both (`#[path]`).

use kernel::alloc::{flags::__GFP_NOWARN, Flags};
use kernel::prelude::*;

/// Flags of allocations that may fail: the caller handles it, so that the log need not say it.
pub(crate) fn quietly() -> Flags {
    GFP_KERNEL | __GFP_NOWARN
}
