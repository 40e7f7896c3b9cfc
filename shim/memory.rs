// SPDX-License-Identifier: GPL-2.0

//! How both modules allocate where they may sleep, compiled into both (`#[path]`).

use kernel::alloc::{flags::__GFP_NOWARN, Flags};
use kernel::prelude::*;

/// If there is no memory, whoever asked for something learns of it, not the log.
pub(crate) fn quietly() -> Flags {
    GFP_KERNEL | __GFP_NOWARN
}
