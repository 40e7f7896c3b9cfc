// SPDX-License-Identifier: GPL-2.0-only

//! Requests at fixed times.

use std::time::{Duration, Instant};

/// Paces one thread. A thread that falls behind catches up by at most [`Pace::LATE`].
#[derive(Debug)]
pub struct Pace {
    every: Duration,
    due: Instant,
}

impl Pace {
    const LATE: Duration = Duration::from_secs(1);

    /// Returns a pace whose first request is due after `delay`, and each further one `every` later.
    #[must_use]
    pub fn new(start: Instant, delay: Duration, every: Duration) -> Self {
        Self {
            every,
            due: start + delay,
        }
    }

    /// Returns the time until the next request, and counts it.
    pub fn next(&mut self, now: Instant) -> Duration {
        let wait = self.due.saturating_duration_since(now);
        let earliest = now.checked_sub(Self::LATE).unwrap_or(now);
        self.due = self.due.max(earliest) + self.every;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_evenly_spaced() {
        let start = Instant::now();
        let every = Duration::from_millis(100);
        let mut pace = Pace::new(start, every, every);
        assert_eq!(pace.next(start), every);
        assert_eq!(pace.next(start + every), every);
        assert_eq!(pace.next(start + every * 3), Duration::ZERO);
    }

    #[test]
    fn lateness_is_forgiven() {
        let start = Instant::now() + Duration::from_secs(10);
        let every = Duration::from_millis(500);
        let mut pace = Pace::new(start, Duration::ZERO, every);
        let late = start + Duration::from_secs(60);
        let immediate = (0..100).take_while(|_| pace.next(late).is_zero()).count();
        assert!((2..=4).contains(&immediate), "{immediate}");
    }
}
