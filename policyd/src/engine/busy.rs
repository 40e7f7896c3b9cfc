// SPDX-License-Identifier: GPL-2.0-only

//! Measures how long policyd's own jobs run.
//!
//! A task that writes to `memory.reclaim`, or lowers a limit, waits for the kernel, and PSI counts
//! the wait as pressure. The time of policyd's own jobs is therefore subtracted from pressure.
//! Otherwise reclaim would cause further reclaim.

use super::Time;

/// Sums up the time in which at least one job runs.
#[derive(Debug, Default)]
pub(super) struct Busy {
    since: Option<Time>,
    spent: Time,
}

impl Busy {
    /// Notes that a job begins.
    pub(super) fn begin(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// Notes that the last running job has ended.
    pub(super) fn end(&mut self, now: Time) {
        if let Some(since) = self.since.take() {
            self.spent += now.saturating_sub(since);
        }
    }

    /// Returns the time since the previous call in which jobs ran.
    pub(super) fn take(&mut self, now: Time) -> Time {
        let runs = self.since.is_some();
        self.end(now);
        if runs {
            self.begin(now);
        }
        std::mem::take(&mut self.spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_counted_once() {
        let at = Time::from_secs;
        let mut busy = Busy::default();
        assert_eq!(busy.take(at(1)), Time::ZERO);
        busy.begin(at(2));
        busy.begin(at(3));
        assert_eq!(busy.take(at(5)), at(3));
        busy.end(at(6));
        busy.end(at(7));
        assert_eq!(busy.take(at(9)), at(1));
        assert_eq!(busy.take(at(9)), Time::ZERO);
    }
}
