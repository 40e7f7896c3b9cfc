// SPDX-License-Identifier: GPL-2.0-only

//! The verdict about one machine from its progress. It uses neither clock nor files: observations
//! and their times are arguments.

use std::{fmt, time::Duration};

/// Limits for a machine without progress.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Patience {
    /// The longest time without any sign of life.
    pub still: Duration,
    /// The most processor time without a heartbeat.
    pub spinning: Duration,
}

impl Patience {
    /// Returns the limits for a machine that is slower by this factor.
    pub(crate) fn times(self, pace: u32) -> Self {
        Self {
            still: self.still.saturating_mul(pace),
            spinning: self.spinning.saturating_mul(pace),
        }
    }
}

impl Default for Patience {
    /// Returns the limits for a machine that shares its processors with others.
    fn default() -> Self {
        Self {
            still: Duration::from_secs(120),
            spinning: Duration::from_secs(300),
        }
    }
}

/// Signs of life of one machine: heartbeats of its agent, growth of its console, processor time of
/// its VMM. Times are those of a [`super::Watch`].
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    heartbeat: Duration,
    /// The VMM's processor time at the last heartbeat.
    work_then: Duration,
    console: Grown<u64>,
    work: Grown<Duration>,
}

impl Progress {
    /// Returns the state of a machine that starts `now`, with this length of its console and this
    /// much processor time used already.
    pub(crate) fn new(now: Duration, console: u64, work: Duration) -> Self {
        Self {
            heartbeat: now,
            work_then: work,
            console: Grown {
                value: console,
                at: now,
            },
            work: Grown {
                value: work,
                at: now,
            },
        }
    }

    /// Records a heartbeat of its agent.
    pub(crate) fn beat(&mut self, now: Duration) {
        self.heartbeat = now;
        self.work_then = self.work.value;
    }

    /// Records the length of its console.
    pub(crate) fn console(&mut self, now: Duration, len: u64) {
        self.console.note(now, len);
    }

    /// Records the processor time of its VMM.
    pub(crate) fn work(&mut self, now: Duration, spent: Duration) {
        self.work.note(now, spent);
    }

    /// Returns whether, and how, it has stopped making progress.
    pub(crate) fn stuck(&self, now: Duration, patience: Patience) -> Option<Stall> {
        let silent = now.saturating_sub(self.heartbeat);
        if silent <= patience.still {
            return None;
        }
        let last = self.console.at.max(self.work.at).max(self.heartbeat);
        let still = now.saturating_sub(last);
        if still > patience.still {
            return Some(Stall::Still(still));
        }
        let burnt = self.work.value.saturating_sub(self.work_then);
        (burnt > patience.spinning).then_some(Stall::Spins(burnt))
    }
}

/// A value and the time of its last change.
#[derive(Clone, Copy, Debug)]
struct Grown<T> {
    value: T,
    at: Duration,
}

impl<T: PartialEq> Grown<T> {
    fn note(&mut self, now: Duration, value: T) {
        if self.value != value {
            *self = Self { value, at: now };
        }
    }
}

/// Kind of a lack of progress.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stall {
    /// There was no sign of life for this time.
    Still(Duration),
    /// The VMM used this processor time without a heartbeat of the agent.
    Spins(Duration),
}

impl fmt::Display for Stall {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Still(since) => write!(to, "stands still for {} s", since.as_secs()),
            Self::Spins(burnt) => {
                let burnt = burnt.as_secs();
                write!(to, "spins: no heartbeat in {burnt} s of processor time")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        still: s(120),
        spinning: s(300),
    };

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn born() -> Progress {
        Progress::new(s(0), 0, s(0))
    }

    #[test]
    fn a_machine_that_reports_may_take_for_ever() {
        let mut progress = born();
        for now in 0..10_000 {
            progress.beat(s(now));
            assert_eq!(progress.stuck(s(now + 1), PATIENCE), None);
        }
    }

    #[test]
    fn a_machine_that_only_prints_or_works_is_not_still() {
        let mut progress = born();
        for now in 1..200 {
            progress.console(s(now), now);
        }
        assert_eq!(progress.stuck(s(200), PATIENCE), None);
        for now in 200..400 {
            // A slow machine that gets half of a processor.
            progress.work(s(now), s(now) / 2);
        }
        assert_eq!(progress.stuck(s(400), PATIENCE), None);
    }

    #[test]
    fn a_machine_without_signs_of_life_is_still() {
        let mut progress = born();
        progress.beat(s(10));
        progress.console(s(20), 5);
        progress.work(s(30), s(3));
        // An unchanged value does not count as progress.
        progress.console(s(100), 5);
        progress.work(s(100), s(3));
        assert_eq!(progress.stuck(s(150), PATIENCE), None);
        assert_eq!(progress.stuck(s(151), PATIENCE), Some(Stall::Still(s(121))));
    }

    #[test]
    fn a_machine_that_works_without_its_agent_spins() {
        let mut progress = born();
        progress.work(s(10), s(10));
        progress.beat(s(10));
        progress.work(s(310), s(310));
        assert_eq!(progress.stuck(s(310), PATIENCE), None);
        progress.work(s(311), s(311));
        let stuck = progress.stuck(s(311), PATIENCE);
        assert_eq!(stuck, Some(Stall::Spins(s(301))));
        progress.beat(s(312));
        assert_eq!(progress.stuck(s(313), PATIENCE), None);
    }

    #[test]
    fn many_processors_do_not_make_it_spin_sooner_than_it_is_silent() {
        let mut progress = born();
        // A machine of sixteen processors at full load for a minute.
        progress.work(s(60), s(16 * 60));
        assert_eq!(progress.stuck(s(60), PATIENCE), None);
    }

    #[test]
    fn a_slow_kernel_gets_more_time() {
        let mut progress = born();
        progress.beat(s(0));
        assert_eq!(progress.stuck(s(400), PATIENCE.times(4)), None);
        assert!(progress.stuck(s(481), PATIENCE.times(4)).is_some());
    }

    #[test]
    fn stalls_are_shown_in_seconds() {
        assert_eq!(Stall::Still(s(121)).to_string(), "stands still for 121 s");
    }
}
