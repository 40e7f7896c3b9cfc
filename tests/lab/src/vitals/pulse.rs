// SPDX-License-Identifier: GPL-2.0-only

//! The verdict about one machine from its progress. It uses neither clock nor files: observations
//! and their times are arguments.

use std::{fmt, time::Duration};

/// Limits for a machine without progress.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Patience {
    /// The longest time without any sign.
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
pub(crate) struct Pulse {
    heartbeat: Duration,
    /// The VMM's processor time at the last heartbeat.
    work_then: Duration,
    console: Grown<u64>,
    work: Grown<Duration>,
}

impl Pulse {
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
    pub(crate) fn stuck(&self, now: Duration, patience: Patience) -> Option<Stuck> {
        let silent = now.saturating_sub(self.heartbeat);
        if silent <= patience.still {
            return None;
        }
        let last = self.console.at.max(self.work.at).max(self.heartbeat);
        let still = now.saturating_sub(last);
        if still > patience.still {
            return Some(Stuck::Still(still));
        }
        let burnt = self.work.value.saturating_sub(self.work_then);
        (burnt > patience.spinning).then_some(Stuck::Spins(burnt))
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
pub(crate) enum Stuck {
    /// All signs are absent.
    Still(Duration),
    /// The VMM uses processor time, and the agent does not run.
    Spins(Duration),
}

impl fmt::Display for Stuck {
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

    fn born() -> Pulse {
        Pulse::new(s(0), 0, s(0))
    }

    #[test]
    fn a_machine_that_reports_may_take_for_ever() {
        let mut pulse = born();
        for now in 0..10_000 {
            pulse.beat(s(now));
            assert_eq!(pulse.stuck(s(now + 1), PATIENCE), None);
        }
    }

    #[test]
    fn a_machine_that_only_prints_or_works_is_not_still() {
        let mut pulse = born();
        for now in 1..200 {
            pulse.console(s(now), now);
        }
        assert_eq!(pulse.stuck(s(200), PATIENCE), None);
        for now in 200..400 {
            // A slow machine that gets half of a processor.
            pulse.work(s(now), s(now) / 2);
        }
        assert_eq!(pulse.stuck(s(400), PATIENCE), None);
    }

    #[test]
    fn a_machine_where_nothing_moves_is_still() {
        let mut pulse = born();
        pulse.beat(s(10));
        pulse.console(s(20), 5);
        pulse.work(s(30), s(3));
        // An unchanged value is no progress.
        pulse.console(s(100), 5);
        pulse.work(s(100), s(3));
        assert_eq!(pulse.stuck(s(150), PATIENCE), None);
        assert_eq!(pulse.stuck(s(151), PATIENCE), Some(Stuck::Still(s(121))));
    }

    #[test]
    fn a_machine_that_works_without_its_agent_spins() {
        let mut pulse = born();
        pulse.work(s(10), s(10));
        pulse.beat(s(10));
        pulse.work(s(310), s(310));
        assert_eq!(pulse.stuck(s(310), PATIENCE), None);
        pulse.work(s(311), s(311));
        let stuck = pulse.stuck(s(311), PATIENCE);
        assert_eq!(stuck, Some(Stuck::Spins(s(301))));
        pulse.beat(s(312));
        assert_eq!(pulse.stuck(s(313), PATIENCE), None);
    }

    #[test]
    fn many_processors_do_not_make_it_spin_sooner_than_it_is_silent() {
        let mut pulse = born();
        // A machine of sixteen processors at full load for a minute.
        pulse.work(s(60), s(16 * 60));
        assert_eq!(pulse.stuck(s(60), PATIENCE), None);
    }

    #[test]
    fn a_slow_kernel_gets_more_time() {
        let mut pulse = born();
        pulse.beat(s(0));
        assert_eq!(pulse.stuck(s(400), PATIENCE.times(4)), None);
        assert!(pulse.stuck(s(481), PATIENCE.times(4)).is_some());
    }

    #[test]
    fn it_is_told_in_seconds() {
        assert_eq!(Stuck::Still(s(121)).to_string(), "stands still for 121 s");
    }
}
