// SPDX-License-Identifier: GPL-2.0-only

//! Processor time for what others cause.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// The part of a processor that may be used in the long run.
const PART: u32 = 200;
/// What may be used at once, of processor time.
const BURST: Duration = Duration::from_millis(250);
/// What must be there again before work that was put off goes on: a tenth of it, so that it goes on
/// every five seconds.
const AGAIN: Duration = Duration::from_millis(25);
/// The longest pause: after it work goes on, whatever the last took.
const LONGEST: Duration = Duration::from_secs(30);

/// An account of processor time: it grows with time, and work is charged to it. Work that exceeds
/// it pauses until that is paid for.
#[derive(Debug)]
pub struct Allowance {
    left: Duration,
    grown: Instant,
    /// When a pause ends.
    until: Option<Instant>,
}

impl Allowance {
    /// An account that nothing was charged to yet.
    pub const fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            grown: now,
            until: None,
        }
    }

    /// Charges work that took so much processor time.
    pub fn charge(&mut self, now: Instant, spent: Duration) {
        let gained = now.saturating_duration_since(self.grown) / PART;
        self.grown = now;
        let left = (self.left + gained).min(BURST);
        self.left = left.saturating_sub(spent);
        if self.left.is_zero() {
            let owed = spent.saturating_sub(left);
            self.until = Some(now + ((owed + AGAIN) * PART).min(LONGEST));
        }
    }

    /// Returns how long work has to pause; no time while something is left.
    pub fn pause(&mut self, now: Instant) -> Duration {
        let Some(until) = self.until else {
            return Duration::ZERO;
        };
        let pause = until.saturating_duration_since(now);
        if pause.is_zero() {
            *self = Self {
                left: AGAIN,
                ..Self::new(now)
            };
        }
        pause
    }
}

/// Processor time that this thread has used.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Works whenever it may, on pieces of this length; returns the processor time that takes in so
    /// many seconds.
    fn works(piece: Duration, seconds: u32) -> Duration {
        let start = Instant::now();
        let (mut now, mut spent) = (start, Duration::ZERO);
        let mut account = Allowance::new(start);
        while now < start + SECOND * seconds {
            let pause = account.pause(now);
            if !pause.is_zero() {
                now += pause;
                assert_eq!(account.pause(now), Duration::ZERO);
            }
            account.charge(now + piece, piece);
            now += piece;
            spent += piece;
        }
        spent
    }

    #[test]
    fn work_takes_its_part_and_a_burst() {
        for micros in [20, 1000, 20_000, 100_000] {
            let spent = works(Duration::from_micros(micros), 600);
            assert!(spent >= SECOND * 2, "{micros}: {spent:?}");
            assert!(spent <= SECOND * 4, "{micros}: {spent:?}");
        }
    }

    /// A piece that takes long is paid for by a pause that has an end.
    #[test]
    fn no_pause_is_endless() {
        let start = Instant::now();
        let mut account = Allowance::new(start);
        account.charge(start, SECOND * 3600);
        assert_eq!(account.pause(start), LONGEST);
        assert_eq!(account.pause(start + LONGEST), Duration::ZERO);
    }

    #[test]
    fn a_pause_leaves_some_to_work_with() {
        let start = Instant::now();
        let mut account = Allowance::new(start);
        account.charge(start, BURST + Duration::from_millis(1));
        let pause = account.pause(start);
        assert_eq!(pause, Duration::from_millis(26) * PART);
        let later = start + pause;
        assert_eq!(account.pause(later), Duration::ZERO);
        account.charge(later, AGAIN - Duration::from_millis(1));
        assert_eq!(account.pause(later), Duration::ZERO);
        account.charge(later, Duration::from_millis(1));
        assert_eq!(account.pause(later), AGAIN * PART);
    }
}
