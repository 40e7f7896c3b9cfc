// SPDX-License-Identifier: GPL-2.0-only

//! Bounds the processor time of work that other users cause.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// In the long run, work may use one part in this many of a processor.
const PART: u32 = 200;
/// The processor time that may be used at once.
const BURST: Duration = Duration::from_millis(250);
/// The processor time that must have been regained before work that was put off goes on: a tenth of
/// [`BURST`], so that it goes on every five seconds.
const AGAIN: Duration = Duration::from_millis(25);
/// The longest pause. Work continues after it, even if the debt is not paid.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// An account of processor time: it grows with time, and work is charged to it. Work that exceeds
/// the account pauses until the debt is paid.
#[derive(Debug)]
pub struct Allowance {
    left: Duration,
    grown: Instant,
    /// The end of the current pause, if there is one.
    until: Option<Instant>,
}

impl Allowance {
    /// Creates an account to which nothing has been charged.
    pub const fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            grown: now,
            until: None,
        }
    }

    /// Charges work that took `spent` processor time.
    pub fn charge(&mut self, now: Instant, spent: Duration) {
        let gained = now.saturating_duration_since(self.grown) / PART;
        self.grown = now;
        let left = (self.left + gained).min(BURST);
        self.left = left.saturating_sub(spent);
        if self.left.is_zero() {
            let owed = spent.saturating_sub(left);
            self.until = Some(now + ((owed + AGAIN) * PART).min(MAX_PAUSE));
        }
    }

    /// Returns how long work has to pause, which is zero while the account is not overdrawn.
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

/// Returns the processor time that this thread has used.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Works for `seconds` seconds in pieces of the given length whenever the allowance permits it,
    /// and returns the processor time used.
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

    /// The pause after a long piece of work is bounded.
    #[test]
    fn no_pause_is_endless() {
        let start = Instant::now();
        let mut account = Allowance::new(start);
        account.charge(start, SECOND * 3600);
        assert_eq!(account.pause(start), MAX_PAUSE);
        assert_eq!(account.pause(start + MAX_PAUSE), Duration::ZERO);
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
