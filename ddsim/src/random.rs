// SPDX-License-Identifier: GPL-2.0-only

//! Reproducible random numbers.

use ddabi::key::mix;

/// A random number generator with the step of SplitMix and the mixing function of `ddabi`.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator with a seed.
    pub const fn new(seed: u64) -> Self {
        Self(mix(seed.wrapping_add(1)))
    }

    /// Returns 64 random bits.
    pub const fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `bound`, which must not be zero.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.word() as u128 * bound as u128) >> 64) as u64
    }

    /// Returns a number that is at least 0 and less than 1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a gamma distributed number with this mean and shape 1.5, Filebench's default. It is
    /// the sum of half the square of a normally distributed number, which has shape 0.5, and an
    /// exponentially distributed number, which has shape 1.
    pub fn gamma(&mut self, mean: f64) -> f64 {
        let exponential = -(1.0 - self.unit()).ln();
        let radius = -2.0 * (1.0 - self.unit()).ln();
        let normal = radius.sqrt() * (self.unit() * core::f64::consts::TAU).cos();
        (exponential + normal * normal / 2.0) * mean / 1.5
    }
}

/// A distribution of numbers below a bound by Zipf's law. Popular numbers are spread over the
/// range.
#[derive(Clone, Debug)]
pub struct Zipf {
    sums: Vec<f64>,
    order: Vec<u32>,
    /// Start of the search for each part of [`GUIDES`].
    guide: Vec<u32>,
}

/// Number of parts of the sum for which the start of the search is stored. It is a power of two, so
/// that the bounds of the parts are rounded in the same way as the numbers that are searched for.
const GUIDES: u32 = 1 << 12;

impl Zipf {
    /// Creates the distribution of `count` numbers. The n-th most popular is `n.powf(exponent)`
    /// times rarer than the first.
    pub fn new(count: u32, exponent: f64, seed: u64) -> Self {
        let sums = (1..=count).scan(0.0, |sum, rank| {
            *sum += f64::from(rank).powf(-exponent);
            Some(*sum)
        });
        let mut random = Random::new(seed);
        let mut order: Vec<u32> = (0..count).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        Self::with(sums.collect(), order)
    }

    /// Creates a distribution of places with `each` items, whose popularity follows the law. Items
    /// are placed at random, so that the popularity of places differs less than that of items.
    pub fn of_places(places: u32, each: u32, exponent: f64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut sums = vec![0.0; places as usize];
        for rank in 1..=u64::from(places) * u64::from(each) {
            let place = random.below(u64::from(places)) as usize;
            sums[place] += (rank as f64).powf(-exponent);
        }
        let mut total = 0.0;
        for sum in &mut sums {
            total += *sum;
            *sum = total;
        }
        Self::with(sums, (0..places).collect())
    }

    fn with(sums: Vec<f64>, order: Vec<u32>) -> Self {
        let total = sums.last().copied().unwrap_or_default();
        let begin = |part| {
            let wanted = f64::from(part) / f64::from(GUIDES) * total;
            sums.partition_point(|sum| *sum <= wanted) as u32
        };
        Self {
            guide: (0..=GUIDES).map(begin).collect(),
            sums,
            order,
        }
    }

    /// Returns the next number.
    pub fn next(&self, random: &mut Random) -> u32 {
        let total = self.sums.last().copied().unwrap_or_default();
        let unit = random.unit();
        let part = (unit * f64::from(GUIDES)) as usize;
        let [first, last] = [part, part + 1].map(|at| self.guide[at] as usize);
        let near = &self.sums[first..last];
        let rank = first + near.partition_point(|sum| *sum <= unit * total);
        self.order[rank.min(self.order.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_has_its_mean() {
        let mut random = Random::new(1);
        let mean = (0..100_000).map(|_| random.gamma(16.0)).sum::<f64>() / 100_000.0;
        assert!((15.8..16.2).contains(&mean), "{mean}");
    }

    #[test]
    fn zipf_prefers_few() {
        let (zipf, mut random) = (Zipf::new(1000, 1.0, 1), Random::new(2));
        let top = zipf.order[0];
        let hits = (0..10_000).filter(|_| zipf.next(&mut random) == top);
        // The expected fraction is the inverse of the 1000th harmonic number, 7.49.
        assert!((1200..1500).contains(&hits.count()));
    }

    #[test]
    fn places_of_many_things_differ_less() {
        // Returns how many of 20 000 accesses hit the less popular half of 1000 numbers.
        let cold = |zipf: Zipf| {
            let mut random = Random::new(3);
            let mut counts = vec![0; 1000];
            (0..20_000).for_each(|_| counts[zipf.next(&mut random) as usize] += 1);
            counts.sort_unstable();
            counts.iter().take(500).sum::<u32>()
        };
        let [alone, many] = [1, 16].map(|each| cold(Zipf::of_places(1000, each, 0.99, 1)));
        assert!(many > 2 * alone, "{many} {alone}");
    }
}
