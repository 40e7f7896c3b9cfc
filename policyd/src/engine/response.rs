// SPDX-License-Identifier: GPL-2.0-only

//! The cost of a container as a function of its share of the store, learnt from observations.
//!
//! Observations of (size, cost) are turned into a falling curve. Those at about the same size are
//! averaged, and a weighted isotonic regression removes contradictions that come from noise.
//! Between known sizes the cost is interpolated along a chord, which lies above a convex curve, so
//! that a size found there suffices. Beyond them a power law continues the curve, pessimistically
//! towards smaller sizes, so that a guess never cuts a container further than the next observation
//! can correct.

use super::quantity::{Cost, Pages};

/// The cost as a falling function of the size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Response {
    /// The averaged observations, sorted by size.
    points: Vec<Point>,
    /// The points, pooled until costs fall with size.
    curve: Vec<Knot>,
    /// Mean square deviation of costs that were observed at the same size.
    noise: f64,
    /// Consecutive observations that contradict the curve. The number is positive if they are
    /// worse.
    surprises: i32,
    /// Consecutive misses of the target at a size that is known to meet it, apart from noise.
    broken: u32,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    size: Pages,
    cost: Cost,
    /// Observations that were averaged, at most [`MAX_WEIGHT`].
    weight: f64,
    /// Number of observations since the last one at this size.
    age: u32,
    /// Set if it was observed while the size was changing.
    moving: bool,
}

/// A point of the curve.
#[derive(Clone, Copy, Debug)]
struct Knot {
    size: Pages,
    cost: Cost,
}

/// Sizes whose ratio has a smaller logarithm count as the same.
const SAME: f64 = 0.04;
/// The largest weight of past observations at one size.
const MAX_WEIGHT: f64 = 6.0;
/// Weight of observations while the size changes. They are also forgotten soon.
const MOVING_WEIGHT: f64 = 0.4;
const MOVING_AGE: u32 = 4;
const MAX_POINTS: usize = 16;
/// The least difference that counts as a contradiction. It also has to be at least [`DEVIATIONS`]
/// standard deviations.
const SURPRISE: Cost = Cost(0.12);
const DEVIATIONS: f64 = 4.0;
/// Number of deviations above the target from which on a target that was met counts as missed.
const BROKEN: f64 = 3.0;
/// Deviation below which figures do not count as noisy.
const COVERED: Cost = Cost(0.1);
/// Consecutive contradictions after which the workload counts as changed.
const CHANGED: i32 = 2;

/// Costs that differ by less count as equal: about a twentieth.
const EQUAL: Cost = Cost(0.05);
/// Costs also count as equal if they differ by less than this number of standard deviations of
/// their difference.
const CERTAIN: f64 = 2.0;
/// Costs that were equal before count as different from this multiple of the limit on.
const SURER: f64 = 1.5;
/// Accuracy with which the end of a plateau is searched.
const EDGE: f64 = 0.1;

/// Sizes of equal cost.
pub(crate) struct Plateau {
    /// The smallest one.
    pub(crate) start: Pages,
    /// The largest one.
    pub(crate) end: Pages,
    /// Whether a smaller size is known to be worse.
    pub(crate) is_edge: bool,
}

/// Powers by which the cost falls with the size where observations do not determine them.
const GROW: f64 = 0.7;
const SHRINK: f64 = 1.5;

impl Response {
    /// Returns whether there is no observation.
    pub(crate) fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Returns the number of sizes with observations.
    pub(crate) fn sizes(&self) -> usize {
        self.points.len()
    }

    /// Adds an observation. `moving` tells whether the size has changed since the previous one.
    /// Returns whether the workload has become lighter.
    pub(crate) fn observe(&mut self, size: Pages, cost: Cost, moving: bool) -> bool {
        let lighter = self.take_in(size, cost, moving);
        self.curve = falling(&self.points);
        lighter
    }

    fn take_in(&mut self, size: Pages, cost: Cost, moving: bool) -> bool {
        let mut lighter = false;
        for point in &mut self.points {
            point.age += 1;
        }
        self.points
            .retain(|point| !point.moving || point.age <= MOVING_AGE);
        if self.contradicts(size, cost, moving) {
            if self.surprises.abs() < CHANGED {
                // A single contradiction may be an accident and is ignored.
                return false;
            }
            lighter = self.surprises < 0;
            // The workload has changed, so that earlier observations are invalid.
            self.forget();
        }
        let near = |point: &&mut Point| is_same(point.size, size);
        match self.points.iter_mut().find(near) {
            Some(point) if !moving || point.moving => {
                if point.moving && !moving {
                    *point = Point::new(size, cost, moving);
                    return lighter;
                }
                let off = (cost - point.cost).0;
                self.noise += (off * off - self.noise) / NOISE_MEMORY;
                point.average(size, cost);
            }
            // Observations at rest take precedence over those while the size changes.
            Some(_) => {}
            None => self.insert(Point::new(size, cost, moving)),
        }
        lighter
    }

    fn forget(&mut self) {
        self.points.clear();
        self.curve.clear();
        self.surprises = 0;
        self.broken = 0;
    }

    /// Returns whether an observation contradicts the curve. Counts consecutive contradictions in
    /// one direction.
    fn contradicts(&mut self, size: Pages, cost: Cost, moving: bool) -> bool {
        let known = self
            .points
            .iter()
            .any(|point| !point.moving && is_same(point.size, size) && point.weight >= 1.0)
            || self.within(size);
        if moving || !known {
            return false;
        }
        let deviation = Cost(self.noise.sqrt());
        let expected = self.cost_at(size);
        let covered = (deviation - COVERED).max(Cost::ZERO);
        if cost > covered * BROKEN && expected <= Cost::TARGET {
            // Small differences matter if the target is missed because of them.
            self.broken += 1;
            if self.broken >= CHANGED.unsigned_abs() {
                self.surprises = CHANGED;
                return true;
            }
        } else {
            self.broken = 0;
        }
        let off = cost - expected;
        if Cost(off.0.abs()) < SURPRISE.max(deviation * DEVIATIONS) {
            self.surprises = 0;
            return false;
        }
        let step = if off > Cost::ZERO { 1 } else { -1 };
        self.surprises = if self.surprises * step > 0 {
            self.surprises + step
        } else {
            step
        };
        true
    }

    /// Returns whether observations at rest exist on both sides of a size.
    fn within(&self, size: Pages) -> bool {
        let mut rest = self.points.iter().filter(|point| !point.moving);
        let first = rest.next();
        first.is_some_and(|first| first.size <= size) && rest.any(|point| point.size >= size)
    }

    fn insert(&mut self, point: Point) {
        if self.points.len() >= MAX_POINTS {
            let oldest = self.points.iter().enumerate();
            if let Some((at, _)) = oldest.max_by_key(|(_, point)| point.age) {
                self.points.remove(at);
            }
        }
        let at = self.points.partition_point(|other| other.size < point.size);
        self.points.insert(at, point);
    }

    /// Returns the sizes whose cost equals that of the largest one at rest, apart from noise.
    pub(crate) fn plateau(&self) -> Option<Plateau> {
        let rest: Vec<&Point> = self.settled().collect();
        let last = *rest.last()?;
        let equal = |point: &&&Point| point.cost - last.cost <= self.apart(point, last);
        let count = rest.iter().rev().take_while(equal).count();
        let start = rest[rest.len() - count];
        Some(Plateau {
            start: start.size,
            end: last.size,
            is_edge: count < rest.len(),
        })
    }

    /// Returns whether a size that is a little smaller is known to be worse, by observations at
    /// rest.
    pub(crate) fn is_edge(&self, size: Pages) -> bool {
        let plateau = self.plateau();
        plateau.is_some_and(|flat| flat.is_edge && flat.start >= size * (1.0 - EDGE))
    }

    /// Returns whether a larger size is known to be better, by observations at rest.
    pub(crate) fn is_better_than(&self, size: Pages) -> bool {
        let Some(own) = self.settled().find(|point| is_same(point.size, size)) else {
            return false;
        };
        self.settled().any(|point| {
            point.size > size && own.cost - point.cost > self.apart(own, point) * SURER
        })
    }

    /// Returns the sizes with more than one observation at rest.
    fn settled(&self) -> impl Iterator<Item = &Point> {
        self.points
            .iter()
            .filter(|point| !point.moving && point.weight > 1.0)
    }

    /// Returns the difference of the costs of two sizes from which on it is significant.
    fn apart(&self, one: &Point, other: &Point) -> Cost {
        let variance = self.noise * (1.0 / one.weight + 1.0 / other.weight);
        EQUAL.max(Cost(CERTAIN * variance.sqrt()))
    }

    /// Returns the expected cost at a size.
    pub(crate) fn cost_at(&self, size: Pages) -> Cost {
        let curve = &self.curve;
        let (Some(first), Some(last)) = (curve.first(), curve.last()) else {
            return Cost::TARGET;
        };
        if size <= first.size {
            first.cost + Cost(shrink_power(curve) * first.size.ln_over(size.max(TINY)))
        } else if size >= last.size {
            last.cost - Cost(grow_power(curve) * size.ln_over(last.size))
        } else {
            let at = curve.partition_point(|knot| knot.size <= size);
            let (a, b) = (curve[at - 1], curve[at]);
            a.cost + Cost((b.cost - a.cost).0 * (size - a.size).0 / (b.size - a.size).0)
        }
    }

    /// Returns the size at which a cost is expected; `None` without observations.
    pub(crate) fn size_for(&self, cost: Cost) -> Option<Pages> {
        let curve = &self.curve;
        let (first, last) = (*curve.first()?, *curve.last()?);
        if cost >= first.cost {
            let power = shrink_power(curve);
            let way = (cost - first.cost).0 / power;
            // If the container has more than enough, a size is tried that is far enough away to
            // learn from.
            let least = if cost - first.cost > AMPLE {
                TELLING
            } else {
                0.0
            };
            return Some(first.size * (-way.max(least).min(FURTHEST)).exp());
        }
        if cost < last.cost {
            let power = grow_power(curve);
            let way = (last.cost - cost).0 / power;
            return Some(last.size * way.min(FURTHEST).exp());
        }
        let at = curve.partition_point(|knot| knot.cost > cost);
        let (a, b) = (curve[at - 1], curve[at]);
        let further = (b.size - a.size).0 * (a.cost - cost).0 / (a.cost - b.cost).0;
        Some(a.size + Pages(further))
    }
}

fn is_same(one: Pages, other: Pages) -> bool {
    one.ln_over(other).abs() < SAME
}

/// Pools points until costs fall with the size (isotonic regression).
fn falling(points: &[Point]) -> Vec<Knot> {
    let mut pooled: Vec<(Knot, f64)> = Vec::with_capacity(points.len());
    for point in points {
        let (size, cost) = (point.size, point.cost);
        let mut next = (Knot { size, cost }, point.weight);
        let rises = |before: &&(Knot, f64), next: &Knot| before.0.cost <= next.cost;
        while let Some(before) = pooled.last().filter(|before| rises(before, &next.0)) {
            next = pool(*before, next);
            pooled.pop();
        }
        pooled.push(next);
    }
    pooled.into_iter().map(|(knot, _)| knot).collect()
}

/// Merges two knots to one between them. Returns it with its weight.
fn pool((a, a_weight): (Knot, f64), (b, b_weight): (Knot, f64)) -> (Knot, f64) {
    let weight = a_weight + b_weight;
    let knot = Knot {
        cost: (a.cost * a_weight + b.cost * b_weight) / weight,
        size: (a.size * a_weight + b.size * b_weight) / weight,
    };
    (knot, weight)
}

impl Point {
    const fn new(size: Pages, cost: Cost, moving: bool) -> Self {
        Self {
            size,
            cost,
            weight: if moving { MOVING_WEIGHT } else { 1.0 },
            age: 0,
            moving,
        }
    }

    /// Adds an observation at about the same size.
    fn average(&mut self, size: Pages, cost: Cost) {
        self.cost += (cost - self.cost) / (self.weight + 1.0);
        self.size += (size - self.size) / (self.weight + 1.0);
        self.weight = (self.weight + 1.0).min(MAX_WEIGHT);
        self.age = 0;
    }
}

/// Number of observations over which noise is averaged.
const NOISE_MEMORY: f64 = 16.0;
/// Smaller sizes are tried if the cost is lower than required by more than this.
const AMPLE: Cost = Cost(0.02);
/// The first smaller size that is tried differs from known sizes by at least this logarithm, so
/// that it does not count as one of them.
const TELLING: f64 = 0.12;
/// The smallest size.
const TINY: Pages = Pages(1e-9);
/// The furthest that a guess leads away from known sizes, as a logarithm.
const FURTHEST: f64 = 1.5;

fn grow_power(curve: &[Knot]) -> f64 {
    let known = curve.windows(2).last().and_then(power);
    known.map_or(GROW, |power| power.clamp(0.2, 1.5))
}

fn shrink_power(curve: &[Knot]) -> f64 {
    const CAUTION: f64 = 1.3;
    let known = curve.windows(2).next().and_then(power);
    known.map_or(SHRINK, |power| (power * CAUTION).clamp(0.3, 3.0))
}

/// Returns the power between two knots, unless they are too close to tell.
fn power(pair: &[Knot]) -> Option<f64> {
    const NEAR: f64 = 0.1;
    let [a, b] = pair else { return None };
    let apart = b.size.ln_over(a.size);
    (apart > NEAR).then(|| (a.cost - b.cost).0 / apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn settle(response: &mut Response, size: f64, cost: f64) {
        for _ in 0..3 {
            response.observe(Pages(size), Cost(cost), false);
        }
    }

    fn size_for(response: &Response, cost: f64) -> f64 {
        response.size_for(Cost(cost)).unwrap().0
    }

    fn cost_at(response: &Response, size: f64) -> f64 {
        response.cost_at(Pages(size)).0
    }

    #[test]
    fn chords_suffice() {
        let mut response = Response::default();
        settle(&mut response, 100.0, 1.0);
        settle(&mut response, 300.0, -1.0);
        assert!((size_for(&response, 0.0) - 200.0).abs() < 1.0);
        assert!(cost_at(&response, 200.0).abs() < 0.01);
    }

    #[test]
    fn beyond_observations_a_power_law_continues_the_curve() {
        let mut response = Response::default();
        assert!(response.size_for(Cost::TARGET).is_none());
        settle(&mut response, 100.0, 0.7);
        assert!((size_for(&response, 0.0) - 100.0 * 1.0_f64.exp()).abs() < 1.0);
        // A size is reduced with more care than it is increased.
        let smaller = size_for(&response, 1.4);
        assert!(smaller > 60.0 && smaller < 100.0, "{smaller}");
    }

    #[test]
    fn noise_is_averaged_and_change_is_noticed() {
        let mut response = Response::default();
        for step in 0..20 {
            let noise = if step % 2 == 0 { 0.03 } else { -0.03 };
            response.observe(Pages(100.0), Cost(0.5 + noise), false);
        }
        assert!((cost_at(&response, 100.0) - 0.5).abs() < 0.02);
        settle(&mut response, 100.0, -0.5);
        assert!((cost_at(&response, 100.0) + 0.5).abs() < 0.05);
    }

    #[test]
    fn observations_during_changes_are_forgotten() {
        let mut response = Response::default();
        response.observe(Pages(100.0), Cost(0.5), true);
        for looks in 0..=MOVING_AGE {
            assert_eq!(response.sizes(), 1 + usize::from(looks > 0), "{looks}");
            response.observe(Pages(1000.0), Cost(-0.5), false);
        }
        assert_eq!(response.sizes(), 1);
    }

    proptest! {
        /// For all observations, the curve falls, and its inverse agrees with it.
        #[test]
        fn curves_fall(seen in prop::collection::vec((1.0..1e6f64, -3.0..3.0f64, any::<bool>()), 1..40)) {
            let mut response = Response::default();
            for (size, cost, moving) in seen {
                response.observe(Pages(size), Cost(cost), moving);
            }
            let mut before = f64::INFINITY;
            for step in 0..60 {
                let size = 1.3_f64.powi(step);
                let cost = cost_at(&response, size);
                prop_assert!(cost <= before + 1e-6, "{cost} after {before}");
                before = cost;
            }
            let mut larger = f64::INFINITY;
            for step in -10..10 {
                let size = size_for(&response, f64::from(step) * 0.4);
                prop_assert!(size.is_finite() && size > 0.0 && size <= larger * (1.0 + 1e-9));
                larger = size;
            }
        }
    }
}
