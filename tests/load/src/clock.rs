// SPDX-License-Identifier: GPL-2.0-only

//! Time, storage traffic and idle processors of a run, in intervals.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};

use crate::{processor::ProcessorTimes, report::Interval, run::End, tally::Tally};

/// The intervals of a run.
pub(crate) struct Clock {
    start: Instant,
    end: Option<Instant>,
    interval: Duration,
    last: Instant,
    next: Instant,
    used_start: Used,
    used_last: Used,
}

/// What was used since the process or the machine started.
#[derive(Clone, Copy)]
struct Used {
    /// Bytes that the kernel read from storage for this process.
    storage: u64,
    /// Time of all processors, and the part in which they were idle.
    processors: Duration,
    idle: Duration,
}

impl Clock {
    /// Starts the first interval.
    pub(crate) fn start(end: End, interval: Duration) -> Result<Self> {
        let start = Instant::now();
        let used = Used::now()?;
        Ok(Self {
            start,
            end: match end {
                End::Time(time) => Some(start + time),
                End::Never | End::Operations(_) => None,
            },
            interval,
            last: start,
            next: start + interval,
            used_start: used,
            used_last: used,
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
        let used = Used::now()?;
        let line = self.line(tally, now, self.last, used.since(&self.used_last));
        self.last = now;
        self.used_last = used;
        while self.next <= now {
            self.next += self.interval;
        }
        Ok(line)
    }

    /// Returns the counts of the whole run until the end of the last interval.
    pub(crate) fn summary(&self, tally: &Tally) -> Result<Interval> {
        let used = Used::now()?.since(&self.used_start);
        Ok(self.line(tally, self.last, self.start, used))
    }

    fn line(&self, tally: &Tally, now: Instant, since: Instant, used: Used) -> Interval {
        Interval {
            elapsed: (now - self.start).as_secs_f64(),
            seconds: (now - since).as_secs_f64(),
            operations: tally.operations,
            bytes_read: tally.bytes_read,
            bytes_written: tally.bytes_written,
            storage_bytes_read: used.storage,
            idle: match used.processors {
                Duration::ZERO => 0.0,
                processors => used.idle.div_duration_f64(processors),
            },
            latency_us: tally.latency(),
        }
    }
}

impl Used {
    fn now() -> Result<Self> {
        let storage = read("/proc/self/io", |text| {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix("read_bytes: "))?;
            value.trim().parse().ok()
        })?;
        let times = read("/proc/stat", ProcessorTimes::parse)?;
        Ok(Self {
            storage,
            processors: times.total(),
            idle: times.idle(),
        })
    }

    fn since(&self, before: &Self) -> Self {
        // The kernel's idle times may decrease a little.
        Self {
            storage: self.storage.saturating_sub(before.storage),
            processors: self.processors.saturating_sub(before.processors),
            idle: self.idle.saturating_sub(before.idle),
        }
    }
}

fn read<T>(path: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    parse(&text).with_context(|| format!("{path} has another format"))
}
