// SPDX-License-Identifier: GPL-2.0-only

//! Bounds the events that a VM can cause. Listeners have small buffers, so that a guest which
//! registers and leaves continually would make them lose the events of others.

use kernel::time::{Instant, Monotonic};

/// Events in a second.
const EVENTS: u32 = 64;

const SECOND_NS: i64 = 1_000_000_000;

/// The remaining events of the current second.
pub(crate) struct Allowance {
    since: Instant<Monotonic>,
    left: u32,
}

impl Allowance {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            left: EVENTS,
        }
    }

    /// Takes one; `false` if none is left.
    pub(crate) fn take(&mut self) -> bool {
        if self.since.elapsed().as_nanos() >= SECOND_NS {
            *self = Self::new();
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}
