// SPDX-License-Identifier: GPL-2.0-only

//! Output of the program: one JSON object per line.

use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Line {
    /// The files exist, and requests begin now.
    Ready(Ready),
    /// Counts since the last line.
    Interval(Interval),
    /// Counts of the whole run, in the last line.
    Summary(Summary),
}

/// The files of the run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Ready {
    /// The profile.
    pub profile: String,
    /// Number of existing files.
    pub files: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

/// Counts of a period.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Interval {
    /// Seconds from the first request to the end of the period.
    pub elapsed: f64,
    /// Its length in seconds.
    pub seconds: f64,
    /// Number of requests.
    pub operations: u64,
    /// Bytes read by requests.
    pub bytes_read: u64,
    /// Bytes written by requests.
    pub bytes_written: u64,
    /// Bytes read from storage for this process, including read-ahead.
    pub storage_bytes_read: u64,
    /// Part of the period for which the machine's processors were idle, 0 to 1.
    pub idle: f64,
    /// Latency of requests in microseconds; `None` without requests.
    pub latency_us: Option<Latency>,
}

/// Counts of the whole run.
pub type Summary = Interval;

/// Latencies in microseconds.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Latency {
    /// Half of the requests were faster.
    pub p50: u64,
    /// 95 % were faster.
    pub p95: u64,
    /// 99 % were faster.
    pub p99: u64,
    /// Maximum.
    pub max: u64,
    /// Number of requests by latency, rounded to two digits. They are needed because percentiles of
    /// a longer period cannot be computed from those of its parts.
    pub counts: Vec<(u64, u64)>,
}

impl Interval {
    /// Returns the requests per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        match self.seconds > 0.0 {
            true => self.operations as f64 / self.seconds,
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back() {
        let line = Line::Interval(Interval {
            elapsed: 2.0,
            seconds: 1.0,
            operations: 7,
            bytes_read: 8,
            bytes_written: 0,
            storage_bytes_read: 4096,
            idle: 0.5,
            latency_us: None,
        });
        let text = serde_json::to_string(&line).unwrap();
        assert!(text.starts_with(r#"{"kind":"interval","elapsed":2.0"#));
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
    }
}
