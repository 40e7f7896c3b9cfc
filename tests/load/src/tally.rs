// SPDX-License-Identifier: GPL-2.0-only

//! Counts of a thread since they were last taken.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::report::Latency;

/// Maximum latency that is distinguished, in microseconds.
const MAX_LATENCY_US: u64 = 600_000_000;

/// Counts and latencies of requests.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    latencies_us: Histogram<u32>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            operations: 0,
            bytes_read: 0,
            bytes_written: 0,
            latencies_us: Histogram::new_with_bounds(1, MAX_LATENCY_US, 2)
                .expect("these bounds are valid"),
        }
    }

    /// Counts a completed request.
    pub(crate) fn count(&mut self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.operations += 1;
        self.latencies_us.saturating_record(us.max(1));
    }

    /// Adds the counts of another one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.latencies_us
            .add(&other.latencies_us)
            .expect("all histograms have the same bounds");
    }

    /// Returns the latencies, or `None` without requests.
    pub(crate) fn latency(&self) -> Option<Latency> {
        let quantile = |part: f64| self.latencies_us.value_at_quantile(part);
        (!self.latencies_us.is_empty()).then(|| Latency {
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: self.latencies_us.max(),
            counts: self
                .latencies_us
                .iter_recorded()
                .map(|step| (step.value_iterated_to(), step.count_at_value().into()))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_all_requests() {
        let mut all = Tally::new();
        assert_eq!(all.latency(), None);
        let mut one = Tally::new();
        for ms in 1..=100 {
            one.count(Duration::from_millis(ms));
        }
        all.add(&one);
        let latency = all.latency().unwrap();
        assert_eq!(all.operations, 100);
        assert!((49_000..=51_000).contains(&latency.p50), "{latency:?}");
        assert!(latency.max >= latency.p99 && latency.p99 >= latency.p95);
        let counted: u64 = latency.counts.iter().map(|(_, count)| count).sum();
        assert_eq!(counted, 100);
    }
}
