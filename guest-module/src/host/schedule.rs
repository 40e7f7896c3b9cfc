// SPDX-License-Identifier: GPL-2.0-only

//! Times of the periodic work of the background job.

use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::time::{Instant, Monotonic};

/// A second in nanoseconds.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// A minute in nanoseconds.
pub(crate) const MINUTE: u64 = 60 * SECOND;

/// Times of periodic work, in nanoseconds since the module was loaded. Only the worker uses them.
pub(crate) struct Schedule {
    /// Time at which the module was loaded.
    start: Instant<Monotonic>,
    /// Time of the last ping to the host.
    pub(crate) last_ping: Atomic<u64>,
    /// Time at which the counters of the curves were last halved.
    pub(crate) last_fade: Atomic<u64>,
    /// Time of the last search for pages of unmounted filesystems.
    pub(crate) last_forget: Atomic<u64>,
}

impl Schedule {
    /// Returns the schedule of a module that is being loaded.
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            last_ping: Atomic::new(0),
            last_fade: Atomic::new(0),
            last_forget: Atomic::new(0),
        }
    }

    /// Returns the nanoseconds since the module was loaded, never 0.
    pub(crate) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos().max(1) as u64
    }

    /// Returns whether `every` nanoseconds have passed since the time in `last`, and sets that to
    /// now if so.
    pub(crate) fn is_due(&self, last: &Atomic<u64>, every: u64) -> bool {
        let now = self.now();
        let due = now.saturating_sub(last.load(Relaxed)) >= every;
        if due {
            last.store(now, Relaxed);
        }
        due
    }
}
