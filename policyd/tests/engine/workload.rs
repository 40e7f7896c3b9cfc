// SPDX-License-Identifier: GPL-2.0-only

//! The work of a container as a function of its share of the store.

use ddabi::{counters::CurvePoint, pool::PoolStats};

/// Pages of 4 KiB in a GiB.
pub(crate) const GIB: f64 = 262_144.0;

/// Number of reads that curves count.
pub(crate) const READS: u64 = 100_000;

/// Relation of throughput and store: the part of the highest throughput with a store of `x` times
/// the scale.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Shape {
    /// `1 - exp(-x)`: concave.
    Exponential,
    /// `x / (x + 1)`: concave, with a long tail.
    Hyperbolic,
    /// A closed loop of requests: time `1 + 9 * exp(-x)`, throughput its inverse.
    ClosedLoop,
    /// A loop over files of which a part is kept: time `1 + 9 * (1 - x)`, convex throughput.
    Loop,
    /// A loop over files that are evicted before they are read again, until all of them fit.
    Cliff,
    /// A quarter of the files is read often and gives half the throughput; the others help little
    /// until all of them fit.
    Plateau,
    /// Two loops: one fits at a third of the scale, the other one at all of it.
    TwoSteps,
    /// The store makes no difference.
    Flat,
}

impl Shape {
    pub(crate) fn part(self, x: f64) -> f64 {
        // A step that takes a twentieth of the scale.
        let step = |at: f64| ((x - at) * 20.0 + 1.0).clamp(0.0, 1.0);
        match self {
            Self::Exponential => 1.0 - (-x).exp(),
            Self::Hyperbolic => x / (x + 1.0),
            Self::ClosedLoop => 1.0 / (1.0 + 9.0 * (-x).exp()),
            Self::Loop => 1.0 / (1.0 + 9.0 * (1.0 - x).max(0.0)),
            Self::Cliff => 0.2 + 0.8 * step(1.0),
            Self::Plateau => 0.5 * (4.0 * x).min(1.0) + 0.1 * x.min(1.0) + 0.4 * step(1.0),
            Self::TwoSteps => 0.2 + 0.4 * step(1.0 / 3.0) + 0.4 * step(1.0),
            Self::Flat => 1.0,
        }
    }
}

/// Phases of a workload that recur and are shorter than an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phases {
    /// Intervals from one beginning to the next.
    pub(crate) period: f64,
    /// Factor by which the number of pages that matter is multiplied in the second half of each
    /// period.
    pub(crate) factor: f64,
}

/// A container at work.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) cgroup: String,
    pub(crate) shape: Shape,
    /// Operations a second with an infinite store.
    pub(crate) top: f64,
    /// Pages that matter.
    pub(crate) scale: f64,
    /// Operations a second that are asked for by the target.
    pub(crate) target: f64,
    /// Number of intervals by which figures are delayed.
    pub(crate) delay: usize,
    /// Operations a second that its clients request, if the clients are the bottleneck.
    pub(crate) demand: Option<f64>,
    /// A constant figure of its exporter, regardless of the real one.
    pub(crate) says: Option<f64>,
    pub(crate) phases: Option<Phases>,
    /// Whether the kernel reports its I/O pressure.
    pub(crate) tells_io: bool,
    pub(crate) used: f64,
    pub(crate) told: Vec<f64>,
    pub(crate) stats: PoolStats,
    /// Microseconds in which it waited for I/O.
    pub(crate) io_us: f64,
}

impl Workload {
    pub(crate) fn new(cgroup: &str, shape: Shape, top: f64, scale: f64, target: f64) -> Self {
        Self {
            cgroup: cgroup.into(),
            shape,
            top,
            scale,
            target,
            delay: 0,
            demand: None,
            says: None,
            phases: None,
            tells_io: false,
            used: 0.0,
            told: Vec::new(),
            stats: PoolStats::default(),
            io_us: 0.0,
        }
    }

    /// A container whose target, nine tenths of its highest throughput, needs this part of a GiB.
    pub(crate) fn needing(cgroup: &str, shape: Shape, part: f64) -> Self {
        let mut one = Self::new(cgroup, shape, 1000.0, 1.0, 900.0);
        one.scale = GIB * part / one.need(one.target).max(TINY);
        one
    }

    /// Operations a second with a store of this many pages.
    pub(crate) fn throughput(&self, pages: f64) -> f64 {
        let possible = self.top * self.shape.part(pages / self.scale);
        self.demand.map_or(possible, |demand| demand.min(possible))
    }

    /// Returns the throughput in interval number `at`.
    pub(crate) fn throughput_in(&self, pages: f64, at: usize) -> f64 {
        let Some(Phases { period, factor }) = self.phases else {
            return self.throughput(pages);
        };
        let more = in_second_half(at as f64, period);
        let other = self.throughput(pages / factor);
        self.throughput(pages) * (1.0 - more) + other * more
    }

    /// Pages that reach a throughput.
    pub(crate) fn need(&self, throughput: f64) -> f64 {
        let (mut low, mut high) = (0.0, 100.0 * self.scale);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            match self.throughput(middle) < throughput {
                true => low = middle,
                false => high = middle,
            }
        }
        high
    }

    /// Part of its reads that miss.
    pub(crate) fn misses(&self, pages: f64) -> f64 {
        1.0 - self.shape.part(pages / self.scale)
    }

    /// Returns the curve that the module samples.
    pub(crate) fn curve(&self) -> Vec<CurvePoint> {
        let point = |step: u32| {
            let pages = GIB * f64::from(step) / 16.0;
            let hits = READS as f64 * (1.0 - self.misses(pages));
            CurvePoint {
                pages: pages as u64,
                hits: hits as u64,
            }
        };
        (1..=32).map(point).collect()
    }

    /// Pages it holds.
    pub(crate) const fn used(&self) -> f64 {
        self.used
    }

    /// Returns the logarithm of the factor by which it is worse than its target with this many
    /// pages.
    pub(crate) fn cost(&self, pages: f64) -> f64 {
        (self.target / self.throughput(pages).max(self.target / 1000.0)).ln()
    }

    /// Returns whether the store that it holds suffices for the target, apart from noise.
    pub(crate) fn is_met(&self) -> bool {
        self.throughput(self.used) >= self.target * 0.995
    }
}

/// The smallest need.
const TINY: f64 = 1e-3;

/// The part of an interval that falls into second halves of periods.
fn in_second_half(begin: f64, period: f64) -> f64 {
    let until = |time: f64| {
        let whole = (time / period).floor();
        let rest = time - whole * period;
        whole * period / 2.0 + (rest - period / 2.0).max(0.0)
    };
    until(begin + 1.0) - until(begin)
}
