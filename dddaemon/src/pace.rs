// SPDX-License-Identifier: GPL-2.0-only

//! Bounds the rate of work that other users cause.

use std::time::{Duration, Instant};

/// A token bucket: allows a burst, and in the long run one operation per period.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    burst: Duration,
    each: Duration,
    /// Time at which all operations so far would have passed at the long-term rate.
    due: Option<Instant>,
}

impl Pace {
    /// Allows at most `burst` operations at once, and then one in `each`.
    pub fn new(burst: u32, each: Duration) -> Self {
        Self {
            burst: each * burst,
            each,
            due: None,
        }
    }

    /// Returns how long the next operation has to wait.
    pub fn pause(&self, now: Instant) -> Duration {
        let ahead = self.due.map_or(Duration::ZERO, |due| due - now);
        (ahead + self.each).saturating_sub(self.burst)
    }

    /// Notes that an operation passes.
    pub fn pass(&mut self, now: Instant) {
        let due = self.due.map_or(now, |due| due.max(now));
        self.due = Some(due + self.each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_so_many_a_second() {
        let mut pace = Pace::new(10, Duration::from_millis(100));
        let start = Instant::now();
        let mut passed = Vec::new();
        for millisecond in 0..3000 {
            let now = start + Duration::from_millis(millisecond);
            if pace.pause(now).is_zero() {
                pace.pass(now);
                passed.push(millisecond);
            }
        }
        assert!((38..=40).contains(&passed.len()), "{passed:?}");
        assert_eq!(passed[9], 9);
        assert!(passed[10] >= 90);
        let later = start + Duration::from_secs(60);
        assert_eq!(pace.pause(later), Duration::ZERO);
    }
}
