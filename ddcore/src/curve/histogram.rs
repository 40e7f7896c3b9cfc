// SPDX-License-Identifier: GPL-2.0-only

//! Histogram of reuse distances, with four buckets for each power of two.

/// Buckets for each power of two.
const STEPS: usize = 4;

/// Distances up to `1 << SMALLEST` pages share the first bucket.
const SMALLEST: u32 = 4;

/// Number of points of a curve, which covers up to `1 << 36` pages (256 TiB).
pub const POINTS: usize = 1 + STEPS * 32;

/// One point of a curve.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Point {
    /// Size of the store in pages.
    pub pages: u64,
    /// Number of hits that the store would have had.
    pub hits: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Histogram {
    buckets: [u64; POINTS],
}

impl Histogram {
    pub(super) const fn new() -> Self {
        Self {
            buckets: [0; POINTS],
        }
    }

    pub(super) fn add(&mut self, pages: u64, count: u64) {
        let bucket = &mut self.buckets[bucket(pages)];
        *bucket = bucket.saturating_add(count);
    }

    /// Returns the number of distances up to `pages`, with linear interpolation within a bucket.
    pub(super) fn upto(&self, pages: u64) -> u64 {
        let last = bucket(pages);
        let whole: u64 = self.buckets[..last].iter().sum();
        let below = if last == 0 { 0 } else { limit(last - 1) };
        let width = limit(last) - below;
        let inside = (pages - below.min(pages)).min(width);
        // This is count * inside / width, computed in parts, because the kernel has no 128-bit
        // division.
        let count = self.buckets[last];
        whole + count / width * inside + (count % width).saturating_mul(inside) / width
    }

    pub(super) fn halve(&mut self) {
        for bucket in &mut self.buckets {
            *bucket /= 2;
        }
    }

    pub(super) fn points(&self) -> impl Iterator<Item = Point> + '_ {
        self.buckets.iter().enumerate().scan(0, |hits, (n, count)| {
            *hits += count;
            Some(Point {
                pages: limit(n),
                hits: *hits,
            })
        })
    }
}

/// Returns the largest distance in a bucket.
const fn limit(bucket: usize) -> u64 {
    if bucket == 0 {
        return 1 << SMALLEST;
    }
    let (power, step) = ((bucket - 1) / STEPS, (bucket - 1) % STEPS);
    let base = 1u64 << (SMALLEST as usize + power);
    base + base / STEPS as u64 * (step as u64 + 1)
}

const fn bucket(pages: u64) -> usize {
    if pages <= 1 << SMALLEST {
        return 0;
    }
    let power = (pages - 1).ilog2();
    let step = ((pages - 1) >> (power - 2)) as usize & (STEPS - 1);
    let bucket = 1 + (power - SMALLEST) as usize * STEPS + step;
    if bucket < POINTS {
        bucket
    } else {
        POINTS - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_distances_within_its_limits() {
        for pages in 0..100_000 {
            let bucket = bucket(pages);
            assert!(pages <= limit(bucket), "{pages}");
            assert!(bucket == 0 || pages > limit(bucket - 1), "{pages}");
        }
        assert_eq!(bucket(u64::MAX), POINTS - 1);
    }

    #[test]
    fn parts_of_buckets_count_by_their_part() {
        let mut histogram = Histogram::new();
        histogram.add(100, 64);
        assert_eq!(histogram.upto(96), 0);
        assert_eq!(histogram.upto(104), 32);
        assert_eq!(histogram.upto(112), 64);
        histogram.halve();
        assert_eq!(histogram.upto(u64::MAX), 32);
    }
}
