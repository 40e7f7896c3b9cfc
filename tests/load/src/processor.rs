// SPDX-License-Identifier: GPL-2.0-only

//! Times of all processors of a machine.

use std::time::Duration;

/// Length of the clock ticks in `/proc`, a constant of the kernel's interface.
const TICK_MS: u64 = 10;

/// The times in `/proc/stat` since the machine started. Those of guests are a part of others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProcessorTimes {
    /// Time in which processors ran tasks or served interrupts.
    busy: Duration,
    /// Time in which they were idle, or only waited for storage.
    idle: Duration,
    /// Time in which the hypervisor of the machine did not run them.
    stolen: Duration,
}

impl ProcessorTimes {
    /// Parses the text of `/proc/stat`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let times: Vec<Duration> = line
            .split_whitespace()
            .map_while(|field| field.parse::<u64>().ok())
            .map(|ticks| Duration::from_millis(ticks * TICK_MS))
            .collect();
        let [user, nice, system, idle, iowait, irq, softirq, stolen, ..] = times[..] else {
            return None;
        };
        Some(Self {
            busy: user + nice + system + irq + softirq,
            idle: idle + iowait,
            stolen,
        })
    }

    /// Returns the time in which processors ran tasks or served interrupts.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Returns the time in which processors were idle, or only waited for storage.
    #[must_use]
    pub fn idle(&self) -> Duration {
        self.idle
    }

    /// Returns the time of all processors.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.busy + self.idle + self.stolen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_processors_are_those_that_run_nothing() {
        let text = "cpu  1 2 3 40 50 6 7 8 900 1000\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        let times = ProcessorTimes::parse(text).unwrap();
        let ticks = |count| Duration::from_millis(count * TICK_MS);
        assert_eq!(times.total(), ticks(117));
        assert_eq!((times.busy(), times.idle()), (ticks(19), ticks(90)));
        assert_eq!(ProcessorTimes::parse("cpu  1 2 3"), None);
        assert_eq!(ProcessorTimes::parse(""), None);
    }
}
