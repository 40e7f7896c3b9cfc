// SPDX-License-Identifier: GPL-2.0-only

//! Bounds the number of events that a VM can cause. Listeners have small buffers. Without this
//! bound, a guest that registers and leaves continually would make them lose the events of other
//! VMs.

use kernel::time::{Instant, Monotonic};

/// Maximum number of events of a VM per second.
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

    /// Takes an event from the allowance. Returns `false` if none is left.
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
