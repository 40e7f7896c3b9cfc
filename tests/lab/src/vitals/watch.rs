// SPDX-License-Identifier: GPL-2.0-only

//! Time that was watched.

use std::time::{Duration, Instant};

/// Longest time between two looks that counts.
const BLINK: Duration = Duration::from_secs(2);

/// A clock that runs only while it is looked at often: time during which
/// this process slept, was stopped or did something else proves nothing about
/// the machines it watches.
#[derive(Debug)]
pub(crate) struct Watch {
    seen: Duration,
    last: Instant,
}

impl Watch {
    pub(crate) fn new(at: Instant) -> Self {
        Self {
            seen: Duration::ZERO,
            last: at,
        }
    }

    /// The time watched until `at`.
    pub(crate) fn look(&mut self, at: Instant) -> Duration {
        self.seen += at.saturating_duration_since(self.last).min(BLINK);
        self.last = self.last.max(at);
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_watched_time_counts() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut watch = Watch::new(start);
        assert_eq!(watch.look(after(500)), Duration::from_millis(500));
        assert_eq!(watch.look(after(1000)), Duration::from_millis(1000));
        // The machine was suspended for an hour.
        assert_eq!(watch.look(after(3_601_000)), Duration::from_millis(3000));
        // Another thread's look came in late.
        assert_eq!(watch.look(after(3_600_000)), Duration::from_millis(3000));
        assert_eq!(watch.look(after(3_601_500)), Duration::from_millis(3500));
    }
}
