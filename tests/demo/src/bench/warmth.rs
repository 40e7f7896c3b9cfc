// SPDX-License-Identifier: GPL-2.0-only

//! Detection of a warm cache.

/// Number of samples over which misses are averaged, and over which the cache must not grow.
const SPAN: usize = 4;
/// Fraction of its capacity with which a cache is full.
const FULL: f64 = 0.95;
/// Growth in a span, as a fraction of the capacity, that is negligible.
const STILL: f64 = 0.02;
/// Maximum difference of the misses of two spans: relative, and of all bytes.
const RELATIVE: f64 = 0.1;
const ABSOLUTE: f64 = 0.01;

/// Watches a cache fill, with about one sample a second.
#[derive(Debug)]
pub(super) struct Warmth {
    room: u64,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    held: u64,
    disk: u64,
    requested: u64,
}

impl Warmth {
    /// Starts with a cache of this capacity in bytes.
    pub(super) fn new(room: u64) -> Self {
        Self {
            room,
            samples: Vec::new(),
        }
    }

    /// Adds a sample: bytes held, and bytes read from disk and requested since some time in the
    /// past. Returns whether the cache is warm: full or no longer growing, with a stable fraction
    /// of bytes from disk.
    pub(super) fn note(&mut self, held: u64, disk: u64, requested: u64) -> bool {
        self.samples.push(Sample {
            held,
            disk,
            requested,
        });
        self.filled() && self.steady()
    }

    fn filled(&self) -> bool {
        let (Some(now), Some(then)) = (self.back(0), self.back(SPAN)) else {
            return false;
        };
        let room = self.room as f64;
        now.held as f64 >= FULL * room
            || (now.held > 0 && now.held as f64 - then.held as f64 <= STILL * room)
    }

    fn steady(&self) -> bool {
        let (Some(now), Some(before)) = (self.misses(0), self.misses(SPAN)) else {
            return false;
        };
        (now - before).abs() <= (RELATIVE * before).max(ABSOLUTE)
    }

    /// Returns the fraction of bytes from disk in a span that ended `ago` samples ago.
    fn misses(&self, ago: usize) -> Option<f64> {
        let (now, then) = (self.back(ago)?, self.back(ago + SPAN)?);
        let requested = now.requested.saturating_sub(then.requested);
        let disk = now.disk.saturating_sub(then.disk);
        (requested > 0).then(|| disk as f64 / requested as f64)
    }

    fn back(&self, ago: usize) -> Option<Sample> {
        let at = self.samples.len().checked_sub(ago + 1)?;
        self.samples.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns when a cache is warm that holds `held(t)` and misses `misses(t)` percent.
    fn warm_at(held: impl Fn(u64) -> u64, misses: impl Fn(u64) -> u64) -> Option<u64> {
        let mut warmth = Warmth::new(1000);
        let (mut disk, mut requested) = (0, 0);
        (0..60).find(|&second| {
            disk += misses(second) * 10;
            requested += 1000;
            warmth.note(held(second), disk, requested)
        })
    }

    #[test]
    fn a_cache_is_warm_when_full_and_steady() {
        assert_eq!(warm_at(|_| 1000, |_| 50), Some(8));
        // It fills in 20 s, with a constant rate of misses.
        assert_eq!(warm_at(|second| second * 50, |_| 100), Some(19));
        // It is full from the start with pages that are no longer needed.
        let falling = |second: u64| 100 - 4 * second.min(20);
        assert_eq!(warm_at(|_| 1000, falling), Some(26));
    }

    #[test]
    fn a_cache_that_stays_small_is_warm_too() {
        let small = |second: u64| (second * 50).min(400);
        assert_eq!(warm_at(small, |_| 0), Some(12));
        assert_eq!(warm_at(|_| 0, |_| 100), None);
    }
}
