// SPDX-License-Identifier: GPL-2.0-only

//! What a page costs its reader: from memory, from the SSD tier, and from the guest's disk.
//!
//! The host measures gets, which may return many pages. The disk's time is what the file says, or
//! follows from the container's I/O pressure and the pages that it had to read from disk.

use super::{
    quantity::Nanoseconds,
    rates::{Gets, Rates},
};

/// Times to read a page, as far as they were measured.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadTimes {
    memory: Option<Nanoseconds>,
    ssd: Option<Nanoseconds>,
    /// Pages that a get of the SSD tier returns, at least 1; 0 if there was none.
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

/// Weight of a look in averages.
const NEW: f64 = 0.25;
/// Gets of a tier in an interval that tell its time.
const FEWEST_GETS: u64 = 10;
/// Pages a second read from disk that tell its time.
const FEWEST_READS: f64 = 1.0;
/// Percent of time in which a task waits for I/O that tell the disk's time.
const LEAST_PRESSURE: f64 = 0.5;
/// Where a time that follows from pressure ends: writes are waited for, too.
const LONGEST: Nanoseconds = Nanoseconds(20e6);
/// The disk's time until it is known: a disk that seeks, or a remote one.
const USUAL_DISK: Nanoseconds = Nanoseconds(5e6);
/// The SSD tier's time until it is known.
const USUAL_SSD: Nanoseconds = Nanoseconds(150e3);

impl ReadTimes {
    /// Takes in what was measured since the last look.
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
        if misses >= FEWEST_READS && pressure >= LEAST_PRESSURE {
            let waited = Nanoseconds(pressure / 100.0 * 1e9);
            average(&mut self.disk, (waited / misses).min(LONGEST));
        }
    }

    /// Returns the times of a page. `disk` is the time of a read of the disk, if the file says it, and
    /// `usual` the SSD tier's for other containers of the VM.
    pub(super) fn times(&self, disk: Option<Nanoseconds>, usual: Option<Nanoseconds>) -> Times {
        // The disk is compared by as many pages as a get returns.
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
    /// Returns how many times longer a page takes from disk than from the SSD tier.
    pub(super) fn ratio(&self) -> f64 {
        self.disk / self.ssd.max(Nanoseconds(1.0))
    }

    /// Returns what a page saves that is read from the SSD tier instead of from disk; not below 0.
    pub(super) fn saved(&self) -> Nanoseconds {
        (self.disk - self.ssd).max(Nanoseconds::ZERO)
    }
}

/// Takes a time into an average.
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

    /// So many gets of 1.5 times 2^`bucket` nanoseconds, of so many pages each.
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
        // Few gets say nothing, and one look does not count for all.
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
    fn the_time_of_a_disk_follows_from_what_is_waited_for_it() {
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
        // What the file says counts more.
        let told = times.times(Some(Nanoseconds(1e6)), None);
        assert!(is_near(told.disk, 1e6));
        for _ in 0..50 {
            times.observe(&rates(1.0, Some(100.0)));
        }
        assert!(is_near(times.times(None, None).disk, LONGEST.0));
    }
}
