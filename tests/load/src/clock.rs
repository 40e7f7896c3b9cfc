// SPDX-License-Identifier: GPL-2.0-only

//! Time and storage traffic of a run, in intervals.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use crate::{report::Interval, run::End, tally::Tally};

/// The intervals of a run.
pub(crate) struct Clock {
    start: Instant,
    end: Option<Instant>,
    interval: Duration,
    last: Instant,
    next: Instant,
    storage_start: u64,
    storage_last: u64,
}

impl Clock {
    /// Starts the first interval.
    pub(crate) fn start(end: End, interval: Duration) -> Result<Self> {
        let start = Instant::now();
        let storage = storage_bytes_read()?;
        Ok(Self {
            start,
            end: match end {
                End::Time(time) => Some(start + time),
                End::Never | End::Operations(_) => None,
            },
            interval,
            last: start,
            next: start + interval,
            storage_start: storage,
            storage_last: storage,
        })
    }

    /// Returns the start time of the run.
    pub(crate) fn start_time(&self) -> Instant {
        self.start
    }

    /// Returns the time until the end of the interval or the run.
    pub(crate) fn until_tick(&self) -> Duration {
        let until = self.end.map_or(self.next, |end| end.min(self.next));
        until.saturating_duration_since(Instant::now())
    }

    /// Returns whether the run's time is over.
    pub(crate) fn over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// Ends an interval, whose counts are in `tally`.
    pub(crate) fn interval(&mut self, tally: &Tally) -> Result<Interval> {
        let now = Instant::now();
        let storage = storage_bytes_read()?;
        let line = self.line(tally, now, self.last, storage - self.storage_last);
        self.last = now;
        self.storage_last = storage;
        while self.next <= now {
            self.next += self.interval;
        }
        Ok(line)
    }

    /// Returns the counts of the whole run until the end of the last interval.
    pub(crate) fn summary(&self, tally: &Tally) -> Result<Interval> {
        let storage = storage_bytes_read()?;
        Ok(self.line(tally, self.last, self.start, storage - self.storage_start))
    }

    fn line(&self, tally: &Tally, now: Instant, since: Instant, storage: u64) -> Interval {
        Interval {
            elapsed: (now - self.start).as_secs_f64(),
            seconds: (now - since).as_secs_f64(),
            operations: tally.operations,
            bytes_read: tally.bytes_read,
            bytes_written: tally.bytes_written,
            storage_bytes_read: storage,
            latency_us: tally.latency(),
        }
    }
}

/// Returns the bytes that the kernel read from storage for this process.
fn storage_bytes_read() -> Result<u64> {
    let path = "/proc/self/io";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "));
    value
        .and_then(|value| value.trim().parse().ok())
        .with_context(|| format!("{path} has no read_bytes"))
}
