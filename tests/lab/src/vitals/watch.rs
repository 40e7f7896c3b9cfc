// SPDX-License-Identifier: GPL-2.0-only

//! A clock of observed time.

use std::time::{Duration, Instant};

/// Maximum time between two looks that is counted.
const BLINK: Duration = Duration::from_secs(2);

/// A clock that runs only while it is read often. Time during which this process slept, was stopped
/// or did something else does not count against the machines that it watches.
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

    /// Returns the observed time until `at`.
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
        // A look of another thread arrived late.
        assert_eq!(watch.look(after(3_600_000)), Duration::from_millis(3000));
        assert_eq!(watch.look(after(3_601_500)), Duration::from_millis(3500));
    }
}
