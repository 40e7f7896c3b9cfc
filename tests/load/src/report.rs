// SPDX-License-Identifier: GPL-2.0-only

//! What the program prints: one JSON object per line.

use serde::{Deserialize, Serialize};

/// One line.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Line {
    /// The files are there; requests begin now.
    Ready(Ready),
    /// What happened since the last line.
    Interval(Interval),
    /// What happened in the whole run; the last line.
    Summary(Summary),
}

/// What requests will be made to.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Ready {
    /// The profile.
    pub profile: String,
    /// Files that are there.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What happened in a stretch of time.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Interval {
    /// Seconds from the first request to the end of this stretch.
    pub elapsed: f64,
    /// Its length in seconds.
    pub seconds: f64,
    /// Requests.
    pub operations: u64,
    /// Bytes read by requests.
    pub bytes_read: u64,
    /// Bytes written by requests.
    pub bytes_written: u64,
    /// Bytes fetched from storage for this process, read-ahead included.
    pub storage_bytes_read: u64,
    /// Latency of requests in microseconds; none without requests.
    pub latency_us: Option<Latency>,
}

/// The whole run.
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
    /// The slowest.
    pub max: u64,
    /// All of them, rounded to two digits, and how many requests took each: percentiles of a
    /// longer stretch cannot be told from those of its parts.
    pub counts: Vec<(u64, u64)>,
}

impl Interval {
    /// Requests per second.
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
            latency_us: None,
        });
        let text = serde_json::to_string(&line).unwrap();
        assert!(text.starts_with(r#"{"kind":"interval","elapsed":2.0"#));
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
    }
}
