// SPDX-License-Identifier: GPL-2.0

//! When the background job did what it does from time to time.

use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::time::{Instant, Monotonic};

/// In nanoseconds.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// In nanoseconds.
pub(crate) const MINUTE: u64 = 60 * SECOND;

/// Times of the background job, in nanoseconds. Worker only.
pub(crate) struct Schedule {
    /// What times are counted from.
    start: Instant<Monotonic>,
    /// When there was a sign of life.
    pub(crate) last_ping: Atomic<u64>,
    /// When curves last_fade.
    pub(crate) last_fade: Atomic<u64>,
    /// When pages of filesystems that are gone were looked for.
    pub(crate) last_forget: Atomic<u64>,
}

impl Schedule {
    /// Begins now.
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            last_ping: Atomic::new(0),
            last_fade: Atomic::new(0),
            last_forget: Atomic::new(0),
        }
    }

    /// Nanoseconds since the module was loaded; never zero.
    pub(crate) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos().max(1) as u64
    }

    /// Whether `every` nanoseconds have passed since the time noted in `last`, which is noted
    /// anew then.
    pub(crate) fn is_due(&self, last: &Atomic<u64>, every: u64) -> bool {
        let now = self.now();
        let due = now.saturating_sub(last.load(Relaxed)) >= every;
        if due {
            last.store(now, Relaxed);
        }
        due
    }
}
