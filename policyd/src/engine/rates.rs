// SPDX-License-Identifier: GPL-2.0-only

//! Rates, computed from two readings of counters.

use super::{Time, quantity::Nanoseconds, sample::Reading};
use ddabi::pool::{HISTOGRAM_BUCKETS, Histogram, PoolStats};
use ddnl::quantile_ns;

/// Activity of a container since the last measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// Refaults of file pages a second.
    pub(crate) refaults_file: f64,
    pub(crate) refaults_anon: f64,
    /// Memory pressure (PSI some), in percent of time.
    pub(crate) memory_pressure: Option<f64>,
    /// Memory pressure (PSI full), in percent of time.
    pub(crate) memory_full: Option<f64>,
    pub(crate) io_pressure: Option<f64>,
    /// Pages a second that the page cache had before and lacks now. The guest requests only pages
    /// that the store may hold, so that the number of requests says little. The kernel's count of
    /// refaults is used instead.
    pub(crate) wanted: f64,
    /// Wanted pages a second that the store returned; absent without a host.
    pub(crate) given: Option<f64>,
    /// Gets of the memory tier in this time.
    pub(super) memory: Option<Gets>,
    /// Gets that read pages of the SSD tier.
    pub(super) ssd: Option<Gets>,
}

/// Gets at the host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gets {
    /// Their durations.
    pub(super) latency: Histogram,
    /// The pages that they returned from the tier.
    pub(super) pages: u64,
}

impl Gets {
    /// Returns their number.
    pub(super) fn calls(&self) -> u64 {
        self.latency
            .iter()
            .fold(0, |sum, one| sum.saturating_add(*one))
    }

    /// Returns their mean duration, by the mid-points of the histogram's buckets.
    pub(super) fn mean(&self) -> Option<Nanoseconds> {
        // A bucket extends from a power of two to the next one.
        let midpoint = |bucket: usize| 1.5 * 2.0_f64.powi(bucket as i32);
        let buckets = self.latency.iter().enumerate();
        let sum: f64 = buckets
            .map(|(at, count)| *count as f64 * midpoint(at))
            .sum();
        let calls = self.calls();
        (calls > 0).then(|| Nanoseconds(sum / calls as f64))
    }

    /// Returns the mean number of pages that a get returned, at least 1.
    pub(super) fn pages_per_get(&self) -> f64 {
        (self.pages as f64 / self.calls().max(1) as f64).max(1.0)
    }
}

/// The last readings.
#[derive(Clone, Debug)]
pub(super) struct Last {
    at: Time,
    reading: Reading,
    stats: Option<PoolStats>,
}

/// The longest time between two measurements of which a rate is computed. After a longer time the
/// machine was suspended or stopped.
const MAX_INTERVAL: Time = Time::from_secs(300);

impl Last {
    pub(super) fn new(at: Time, reading: Reading, stats: Option<PoolStats>) -> Self {
        Self { at, reading, stats }
    }

    /// Returns the rates from this measurement to the next; `None` if too little or too much time
    /// has passed.
    pub(super) fn rates(&self, next: &Self) -> Option<Rates> {
        let time = next.at.checked_sub(self.at)?;
        if time.is_zero() || time > MAX_INTERVAL {
            return None;
        }
        let seconds = time.as_secs_f64();
        let (was, is) = (&self.reading, &next.reading);
        // A counter that fell is that of a new cgroup or module, and is used from the next
        // measurement on.
        let rate = |was: u64, is: u64| is.checked_sub(was).map(|more| more as f64 / seconds);
        let pressure = |was: Option<u64>, is: Option<u64>| {
            // Converts microseconds per second to percent.
            rate(was?, is?).map(|us| (us / 1e4).min(100.0))
        };
        let mut rates = Rates {
            refaults_file: rate(was.refaults_file, is.refaults_file)?,
            refaults_anon: rate(was.refaults_anon, is.refaults_anon)?,
            memory_pressure: pressure(was.memory_us, is.memory_us),
            memory_full: pressure(was.full_us, is.full_us),
            io_pressure: pressure(was.io_us, is.io_us),
            ..Rates::default()
        };
        rates.wanted = rates.refaults_file;
        if let (Some(was), Some(is)) = (&self.stats, &next.stats) {
            let given = |stats: &PoolStats| stats.gets.saturating_sub(stats.misses);
            rates.given = rate(given(was), given(is));
            // The kernel does not count refaults of pages that left long ago, nor of inodes that it
            // has freed.
            let asked = rate(was.gets, is.gets).unwrap_or(0.0);
            rates.wanted = rates.wanted.max(asked);
            let gets = |latency: fn(&PoolStats) -> &Histogram, pages: fn(&PoolStats) -> u64| {
                Some(Gets {
                    latency: difference(latency(was), latency(is))?,
                    pages: pages(is).checked_sub(pages(was))?,
                })
            };
            let from_memory = |stats: &PoolStats| stats.hits.saturating_sub(stats.ssd_hits);
            rates.memory = gets(|stats| &stats.get_latency, from_memory);
            rates.ssd = gets(|stats| &stats.ssd_get_latency, |stats| stats.ssd_hits);
        }
        Some(rates)
    }
}

impl Rates {
    /// Returns the part of refaults that the store served; `None` if there were too few.
    pub(crate) fn hit_ratio(&self) -> Option<f64> {
        const FEWEST: f64 = 1.0;
        let given = self.given.filter(|_| self.wanted >= FEWEST)?;
        Some((given / self.wanted).min(1.0))
    }

    /// Returns the refaults a second that were read from disk.
    pub(crate) fn misses(&self) -> f64 {
        (self.wanted - self.given.unwrap_or(0.0)).max(0.0)
    }

    /// Returns the percentile of the duration of gets at the host, in milliseconds.
    pub(crate) fn latency_ms(&self, percentile: f64) -> Option<f64> {
        let mut histogram = self.memory.as_ref()?.latency;
        let ssd = self.ssd.iter().flat_map(|gets| &gets.latency);
        for (sum, more) in histogram.iter_mut().zip(ssd) {
            *sum = sum.saturating_add(*more);
        }
        // Buckets are powers of two, so that a fraction of a percent makes no difference.
        let nanoseconds = quantile_ns(&histogram, percentile.clamp(1.0, 100.0) as u64)?;
        Some(nanoseconds as f64 / 1e6)
    }
}

fn difference(was: &Histogram, is: &Histogram) -> Option<Histogram> {
    let mut more = [0; HISTOGRAM_BUCKETS];
    for ((more, was), is) in more.iter_mut().zip(was).zip(is) {
        *more = is.checked_sub(*was)?;
    }
    Some(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(seconds: u64, counter: u64) -> Last {
        let reading = Reading {
            refaults_file: counter / 2,
            memory_us: Some(counter * 1000),
            ..Reading::default()
        };
        let mut stats = PoolStats {
            gets: counter,
            misses: counter / 4,
            ..PoolStats::default()
        };
        stats.get_latency[20] = counter;
        Last::new(Time::from_secs(seconds), reading, Some(stats))
    }

    #[test]
    fn rates_are_differences_over_time() {
        let rates = look(10, 100).rates(&look(15, 600)).unwrap();
        assert_eq!((rates.refaults_file, rates.wanted), (50.0, 100.0));
        assert_eq!(rates.memory_pressure, Some(10.0));
        assert_eq!((rates.hit_ratio(), rates.misses()), (Some(0.75), 25.0));
        assert!((rates.latency_ms(99.0).unwrap() - 2.097_151).abs() < 1e-9);
    }

    /// The total includes gets of both tiers, and each tier has its own mean.
    #[test]
    fn gets_of_the_ssd_tier_are_slower_ones() {
        let stats = |scale: u64| {
            let mut stats = PoolStats {
                hits: 1100 * scale,
                ssd_hits: 300 * scale,
                ..PoolStats::default()
            };
            stats.get_latency[12] = 400 * scale;
            stats.ssd_get_latency[17] = 100 * scale;
            stats.ssd_get_latency[18] = 100 * scale;
            stats
        };
        let look =
            |at, scale| Last::new(Time::from_secs(at), Reading::default(), Some(stats(scale)));
        let rates = look(0, 1).rates(&look(5, 2)).unwrap();
        let (memory, ssd) = (rates.memory.as_ref().unwrap(), rates.ssd.as_ref().unwrap());
        assert_eq!(memory.mean(), Some(Nanoseconds(1.5 * 4096.0)));
        assert_eq!(ssd.mean(), Some(Nanoseconds(1.5 * 1.5 * 131_072.0)));
        assert_eq!((memory.pages_per_get(), ssd.pages_per_get()), (2.0, 1.5));
        // A sixth of all gets is in the highest bucket.
        assert_eq!(rates.latency_ms(50.0), Some(8191.0 / 1e6));
        assert_eq!(rates.latency_ms(99.0), Some(524_287.0 / 1e6));
    }

    /// The guest requests only pages that the host may hold, so that all requests succeed although
    /// most refaults are read from disk.
    #[test]
    fn refaults_without_a_request_are_misses() {
        let reading = |refaults_file| Reading {
            refaults_file,
            ..Reading::default()
        };
        let stats = |gets| PoolStats {
            gets,
            ..PoolStats::default()
        };
        let before = Last::new(Time::from_secs(0), reading(0), Some(stats(0)));
        let after = Last::new(Time::from_secs(1), reading(400), Some(stats(100)));
        let rates = before.rates(&after).unwrap();
        assert_eq!((rates.hit_ratio(), rates.misses()), (Some(0.25), 300.0));
    }

    #[test]
    fn jumps_of_clock_and_counters_are_ignored() {
        assert_eq!(look(10, 1).rates(&look(10, 2)), None);
        assert_eq!(look(10, 1).rates(&look(9, 2)), None);
        assert_eq!(look(10, 1).rates(&look(9000, 2)), None);
        assert_eq!(look(10, 5).rates(&look(15, 2)), None);
    }

    #[test]
    fn a_reloaded_module_counts_from_the_next_measurement_on() {
        let mut after = look(15, 600);
        after.stats = Some(PoolStats::default());
        let rates = look(10, 100).rates(&after).unwrap();
        assert_eq!((rates.given, rates.hit_ratio()), (None, None));
        assert_eq!(rates.latency_ms(50.0), None);
    }
}
