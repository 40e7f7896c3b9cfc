// SPDX-License-Identifier: GPL-2.0-only

//! Latencies over a period.

use std::collections::BTreeMap;

use ddload::Interval;

/// Latencies in microseconds, and the number of requests of each.
///
/// A second without an answered request counts as one request whose latency is the time without an
/// answer until then. Otherwise a load whose tasks all wait would look better the longer they wait.
#[derive(Debug, Default)]
pub(crate) struct Latencies(BTreeMap<u64, u64>);

impl Latencies {
    /// Returns the latencies of consecutive intervals.
    pub(crate) fn of<'a>(intervals: impl Iterator<Item = &'a Interval>) -> Self {
        let mut all = Self::default();
        let mut silent = 0.0;
        for interval in intervals {
            match &interval.latency_us {
                Some(latency) => {
                    silent = 0.0;
                    for (us, count) in &latency.counts {
                        *all.0.entry(*us).or_default() += count;
                    }
                }
                None => {
                    silent += interval.seconds;
                    *all.0.entry((silent * 1e6) as u64).or_default() += 1;
                }
            }
        }
        all
    }

    /// Returns the latencies, and the number of requests of each.
    pub(crate) fn counts(&self) -> Vec<(u64, u64)> {
        self.0.iter().map(|(us, count)| (*us, *count)).collect()
    }

    /// Returns the latency that this percentage of the requests do not exceed, or `None` without
    /// requests.
    pub(crate) fn percentile_us(&self, percent: u64) -> Option<u64> {
        let requests: u64 = self.0.values().sum();
        let rank = (requests * percent).div_ceil(100);
        let mut seen = 0;
        let reaches = |(us, count): (&u64, &u64)| {
            seen += count;
            (seen >= rank).then_some(*us)
        };
        self.0.iter().find_map(reaches)
    }
}

#[cfg(test)]
mod tests {
    use ddload::Latency;

    use super::*;

    fn second(counts: &[(u64, u64)]) -> Interval {
        Interval {
            elapsed: 0.0,
            seconds: 1.0,
            operations: counts.iter().map(|(_, count)| count).sum(),
            bytes_read: 0,
            bytes_written: 0,
            storage_bytes_read: 0,
            idle: 0.0,
            latency_us: (!counts.is_empty()).then(|| Latency {
                p50: 0,
                p95: 0,
                p99: 0,
                max: 0,
                counts: counts.to_vec(),
            }),
        }
    }

    #[test]
    fn percentiles_are_of_all_requests() {
        // A slow second has few requests; the mean of the seconds' percentiles would be 45,500.
        let seconds = [second(&[(1_000, 990)]), second(&[(90_000, 10)])];
        assert_eq!(Latencies::of(seconds.iter()).percentile_us(99), Some(1_000));
        let seconds = [second(&[(1_000, 989)]), second(&[(90_000, 11)])];
        assert_eq!(
            Latencies::of(seconds.iter()).percentile_us(99),
            Some(90_000)
        );
        assert_eq!(Latencies::of(std::iter::empty()).percentile_us(99), None);
    }

    #[test]
    fn silence_is_slow() {
        let seconds = [
            second(&[(1_000, 100)]),
            second(&[]),
            second(&[]),
            second(&[(2_100_000, 1)]),
        ];
        assert_eq!(
            Latencies::of(seconds.iter()).percentile_us(99),
            Some(2_000_000)
        );
    }
}
