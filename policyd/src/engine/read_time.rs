// SPDX-License-Identifier: GPL-2.0-only

//! Estimates the time to read a page from memory, from the SSD tier, and from the guest's disk.
//!
//! The host measures gets, which can return many pages. The disk's time is given by the file, or
//! estimated from the container's I/O pressure and the pages that it read from disk.

use super::{
    quantity::Nanoseconds,
    rates::{Gets, Rates},
};

/// Measured times to read a page.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadTimes {
    memory: Option<Nanoseconds>,
    ssd: Option<Nanoseconds>,
    /// Mean number of pages that a get of the SSD tier returns, at least 1; 0 if there was none.
    per_get: f64,
    disk: Option<Nanoseconds>,
}

/// Times to read a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    /// From the memory tier, if it was measured.
    pub(super) memory: Option<Nanoseconds>,
    pub(super) ssd: Nanoseconds,
    pub(super) disk: Nanoseconds,
}

/// Weight of a measurement in averages.
const NEW: f64 = 0.25;
/// The fewest gets of a tier in an interval that are used.
const FEWEST_GETS: u64 = 10;
/// The fewest pages a second from disk that are used.
const FEWEST_READS: f64 = 1.0;
/// The lowest I/O pressure that is used for the disk's time, in percent of time.
const MIN_PRESSURE: f64 = 0.5;
/// The longest time that is derived from pressure, which includes waits for writes.
const MAX_READ_TIME: Nanoseconds = Nanoseconds(20e6);
/// The disk's time until it is known: that of a seeking disk, or a remote one.
const USUAL_DISK: Nanoseconds = Nanoseconds(5e6);
/// The SSD tier's time until it is known.
const USUAL_SSD: Nanoseconds = Nanoseconds(150e3);

impl ReadTimes {
    /// Handles the rates since the last measurement.
    pub(super) fn observe(&mut self, rates: &Rates) {
        let page = |gets: &Gets| Some(gets.mean()? / gets.pages_per_get());
        let told = |gets: &&Gets| gets.calls() >= FEWEST_GETS;
        if let Some(time) = rates.memory.as_ref().filter(told).and_then(page) {
            average(&mut self.memory, time);
        }
        if let Some(gets) = rates.ssd.as_ref().filter(told) {
            if let Some(time) = page(gets) {
                average(&mut self.ssd, time);
            }
            let new = gets.pages_per_get();
            let part = if self.per_get > 0.0 { NEW } else { 1.0 };
            self.per_get += (new - self.per_get) * part;
        }
        let (misses, pressure) = (rates.misses(), rates.io_pressure.unwrap_or(0.0));
        if misses >= FEWEST_READS && pressure >= MIN_PRESSURE {
            let waited = Nanoseconds(pressure / 100.0 * 1e9);
            average(&mut self.disk, (waited / misses).min(MAX_READ_TIME));
        }
    }

    /// Returns the times to read a page. `disk` is the time of a read of the disk, if the file has
    /// it, and `usual` the SSD tier's time for other containers of the VM.
    pub(super) fn times(&self, disk: Option<Nanoseconds>, usual: Option<Nanoseconds>) -> Times {
        // A read of the disk is compared with a get of the same number of pages.
        let told = disk.map(|read| read / self.per_get.max(1.0));
        Times {
            memory: self.memory,
            ssd: self.ssd.or(usual).unwrap_or(USUAL_SSD),
            disk: told.or(self.disk).unwrap_or(USUAL_DISK),
        }
    }

    /// Returns the SSD tier's time, if it was measured.
    pub(super) const fn ssd(&self) -> Option<Nanoseconds> {
        self.ssd
    }
}

impl Times {
    /// Returns the ratio of the disk's time to the SSD tier's.
    pub(super) fn ratio(&self) -> f64 {
        self.disk / self.ssd.max(Nanoseconds(1.0))
    }

    /// Returns the time that is saved by reading a page from the SSD tier instead of from disk, at
    /// least 0.
    pub(super) fn saved(&self) -> Nanoseconds {
        (self.disk - self.ssd).max(Nanoseconds::ZERO)
    }
}

/// Adds a time to an average.
fn average(mean: &mut Option<Nanoseconds>, new: Nanoseconds) {
    *mean = Some(match *mean {
        Some(mean) => mean + (new - mean) * NEW,
        None => new,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use ddabi::pool::HISTOGRAM_BUCKETS;

    /// Returns gets of 1.5 times 2^`bucket` nanoseconds.
    fn gets(bucket: usize, calls: u64, pages: u64) -> Option<Gets> {
        let mut latency = [0; HISTOGRAM_BUCKETS];
        latency[bucket] = calls;
        Some(Gets {
            latency,
            pages: calls * pages,
        })
    }

    fn is_near(one: Nanoseconds, other: f64) -> bool {
        (one.0 / other - 1.0).abs() < 1e-3
    }

    #[test]
    fn times_are_those_of_a_page() {
        let mut times = ReadTimes::default();
        let told = Some(Nanoseconds(8e6));
        assert_eq!(times.times(None, None).ssd, USUAL_SSD);
        assert_eq!(
            times.times(None, Some(Nanoseconds(9.0))).ssd,
            Nanoseconds(9.0)
        );
        assert_eq!(times.times(None, None).disk, USUAL_DISK);
        times.observe(&Rates {
            memory: gets(13, 100, 2),
            ssd: gets(20, 100, 4),
            ..Rates::default()
        });
        let found = times.times(told, None);
        assert!(is_near(found.memory.unwrap(), 1.5 * 8192.0 / 2.0));
        assert!(is_near(found.ssd, 1.5 * 1_048_576.0 / 4.0));
        assert!(is_near(found.disk, 2e6), "{found:?}");
        assert!((found.ratio() - 2e6 / (1.5 * 262_144.0)).abs() < 1e-3);
        // Few gets are ignored, and a single measurement does not replace the average.
        let before = times.times(None, None);
        times.observe(&Rates {
            ssd: gets(10, FEWEST_GETS - 1, 1),
            ..Rates::default()
        });
        assert_eq!(times.times(None, None), before);
        times.observe(&Rates {
            ssd: gets(10, 1000, 4),
            ..Rates::default()
        });
        assert!(times.times(None, None).ssd > before.ssd * 0.7);
    }

    #[test]
    fn the_time_of_a_disk_follows_from_io_pressure() {
        let mut times = ReadTimes::default();
        let rates = |wanted, io_pressure| Rates {
            wanted,
            io_pressure,
            ..Rates::default()
        };
        times.observe(&rates(0.5, Some(50.0)));
        times.observe(&rates(100.0, None));
        times.observe(&rates(100.0, Some(0.1)));
        assert_eq!(times.times(None, None).disk, USUAL_DISK);
        times.observe(&rates(100.0, Some(50.0)));
        assert!(is_near(times.times(None, None).disk, 5e6));
        // The time of the file takes precedence.
        let told = times.times(Some(Nanoseconds(1e6)), None);
        assert!(is_near(told.disk, 1e6));
        for _ in 0..50 {
            times.observe(&rates(1.0, Some(100.0)));
        }
        assert!(is_near(times.times(None, None).disk, MAX_READ_TIME.0));
    }
}
