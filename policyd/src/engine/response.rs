// SPDX-License-Identifier: GPL-2.0

//! What is known of how a container responds to its share of the store.
//!
//! Observations of (size, cost) become a falling curve: those at about the same size are averaged,
//! and a weighted isotonic regression takes the noise out of their order. Between known sizes the
//! cost is interpolated along a chord, which lies above a convex curve: a size found so suffices.
//! Beyond them a power law continues the curve, pessimistic towards smaller sizes, so that a
//! container is never cut on a guess by more than the next observation can correct.

/// A falling curve of cost over size (pages).
#[derive(Clone, Debug, Default)]
pub(crate) struct Response {
    /// By size.
    points: Vec<Point>,
    /// The points, pooled until costs fall with size.
    curve: Vec<(f64, f64)>,
    /// Mean square of how much observations of one size differ.
    noise: f64,
    /// Observations in a row that contradict what was known: worse are positive.
    surprises: i32,
    /// Misses of the target in a row at a size that is known to meet it, noise apart.
    broken: u32,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    size: f64,
    cost: f64,
    /// Observations that were averaged, at most [`MOST_WEIGHT`].
    weight: f64,
    /// Observations since the last one that went into it.
    age: u32,
    /// Observed while the size was changing.
    moving: bool,
}

/// Sizes that differ by less are the same.
const SAME: f64 = 0.04;
/// The past of one size counts as much as so many observations.
const MOST_WEIGHT: f64 = 6.0;
/// What is seen while the size changes counts less, and is forgotten soon.
const MOVING_WEIGHT: f64 = 0.4;
const MOVING_AGE: u32 = 4;
const MOST_POINTS: usize = 16;
/// A difference that noise alone does not make: at least this, and so many deviations.
const SURPRISE: f64 = 0.12;
const DEVIATIONS: f64 = 4.0;
/// So many deviations above its target a target that was met is broken.
const BROKEN: f64 = 3.0;
/// Less the deviation of figures that are not taken for noisy.
const COVERED: f64 = 0.1;
/// Contradictions in a row that mean that the workload changed.
const CHANGED: i32 = 2;

/// Costs that differ by less are equal: a twentieth.
const EQUAL: f64 = 0.05;
/// And by less than so many deviations of their difference.
const CERTAIN: f64 = 2.0;
/// What was found to be equal before is different if it is this much further apart.
const SURER: f64 = 1.5;
/// How exactly the end of a plateau is looked for.
const EDGE: f64 = 0.1;

/// Sizes of equal cost.
pub(crate) struct Plateau {
    /// The smallest one.
    pub(crate) start: f64,
    /// The largest one.
    pub(crate) end: f64,
    /// Whether a smaller size is known, and is worse.
    pub(crate) is_edge: bool,
}

/// Powers by which the cost falls as the size grows, where two observations do not tell.
const GROW: f64 = 0.7;
const SHRINK: f64 = 1.5;

impl Response {
    /// Whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// At how many sizes it was seen.
    pub(crate) fn sizes(&self) -> usize {
        self.points.len()
    }

    /// Takes in an observation. `moving`: the size changed since the one before. Answers whether the
    /// workload became lighter.
    pub(crate) fn observe(&mut self, size: f64, cost: f64, moving: bool) -> bool {
        let lighter = self.take_in(size, cost, moving);
        self.curve = falling(&self.points);
        lighter
    }

    fn take_in(&mut self, size: f64, cost: f64, moving: bool) -> bool {
        let mut lighter = false;
        for point in &mut self.points {
            point.age += 1;
        }
        self.points
            .retain(|point| !point.moving || point.age <= MOVING_AGE);
        if self.contradicts(size, cost, moving) {
            if self.surprises.abs() < CHANGED {
                // Once may be an accident; it teaches nothing.
                return false;
            }
            lighter = self.surprises < 0;
            // Another workload: what was known is worth nothing.
            self.forget();
        }
        let near = |point: &&mut Point| is_same(point.size, size);
        match self.points.iter_mut().find(near) {
            Some(point) if !moving || point.moving => {
                if point.moving && !moving {
                    *point = Point::new(size, cost, moving);
                    return lighter;
                }
                let off = cost - point.cost;
                self.noise += (off * off - self.noise) / NOISE_MEMORY;
                point.cost += off / (point.weight + 1.0);
                point.size += (size - point.size) / (point.weight + 1.0);
                point.weight = (point.weight + 1.0).min(MOST_WEIGHT);
                point.age = 0;
            }
            // What is known at rest is not worsened by what is seen on the way.
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

    /// Whether an observation differs from what is known; counts those in one direction.
    fn contradicts(&mut self, size: f64, cost: f64, moving: bool) -> bool {
        let known = self
            .points
            .iter()
            .any(|point| !point.moving && is_same(point.size, size) && point.weight >= 1.0)
            || self.within(size);
        if moving || !known {
            return false;
        }
        let deviation = self.noise.sqrt();
        let expected = self.cost_at(size);
        if cost > BROKEN * (deviation - COVERED).max(0.0) && expected <= 0.0 {
            // Small differences matter where they break a target.
            self.broken += 1;
            if self.broken >= CHANGED.unsigned_abs() {
                self.surprises = CHANGED;
                return true;
            }
        } else {
            self.broken = 0;
        }
        let off = cost - expected;
        if off.abs() < SURPRISE.max(DEVIATIONS * deviation) {
            self.surprises = 0;
            return false;
        }
        let step = if off > 0.0 { 1 } else { -1 };
        self.surprises = if self.surprises * step > 0 {
            self.surprises + step
        } else {
            step
        };
        true
    }

    /// Whether sizes at rest are known on both sides.
    fn within(&self, size: f64) -> bool {
        let mut rest = self.points.iter().filter(|point| !point.moving);
        let first = rest.next();
        first.is_some_and(|first| first.size <= size) && rest.any(|point| point.size >= size)
    }

    fn insert(&mut self, point: Point) {
        if self.points.len() >= MOST_POINTS {
            let oldest = self.points.iter().enumerate();
            if let Some((at, _)) = oldest.max_by_key(|(_, point)| point.age) {
                self.points.remove(at);
            }
        }
        let at = self.points.partition_point(|other| other.size < point.size);
        self.points.insert(at, point);
    }

    /// Returns the sizes, the largest one at rest among them, that cost the same, noise apart.
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

    /// Whether a size is known at rest that is smaller, not by far, and worse.
    pub(crate) fn is_edge(&self, size: f64) -> bool {
        let plateau = self.plateau();
        plateau.is_some_and(|flat| flat.is_edge && flat.start >= size * (1.0 - EDGE))
    }

    /// Whether a larger size is known at rest that is better.
    pub(crate) fn is_better_than(&self, size: f64) -> bool {
        let Some(own) = self.settled().find(|point| is_same(point.size, size)) else {
            return false;
        };
        self.settled().any(|point| {
            point.size > size && own.cost - point.cost > SURER * self.apart(own, point)
        })
    }

    /// Sizes that were seen at rest more than once.
    fn settled(&self) -> impl Iterator<Item = &Point> {
        self.points
            .iter()
            .filter(|point| !point.moving && point.weight > 1.0)
    }

    /// How far the costs of two sizes are apart if that means anything.
    fn apart(&self, one: &Point, other: &Point) -> f64 {
        let variance = self.noise * (1.0 / one.weight + 1.0 / other.weight);
        EQUAL.max(CERTAIN * variance.sqrt())
    }

    /// The cost to be expected at a size.
    pub(crate) fn cost_at(&self, size: f64) -> f64 {
        let curve = &self.curve;
        let (Some(first), Some(last)) = (curve.first(), curve.last()) else {
            return 0.0;
        };
        if size <= first.0 {
            first.1 + shrink_power(curve) * (first.0 / size.max(TINY)).ln()
        } else if size >= last.0 {
            last.1 - grow_power(curve) * (size / last.0).ln()
        } else {
            let at = curve.partition_point(|point| point.0 <= size);
            let (a, b) = (curve[at - 1], curve[at]);
            a.1 + (b.1 - a.1) * (size - a.0) / (b.0 - a.0)
        }
    }

    /// The size at which a cost is to be expected; `None` if nothing is known.
    pub(crate) fn size_for(&self, cost: f64) -> Option<f64> {
        let curve = &self.curve;
        let (first, last) = (*curve.first()?, *curve.last()?);
        if cost >= first.1 {
            let power = shrink_power(curve);
            let way = (cost - first.1) / power;
            // Where there is more than enough, a size is tried that teaches something.
            let least = if cost - first.1 > AMPLE { TELLING } else { 0.0 };
            return Some(first.0 * (-way.max(least).min(FURTHEST)).exp());
        }
        if cost < last.1 {
            let power = grow_power(curve);
            return Some(last.0 * ((last.1 - cost) / power).min(FURTHEST).exp());
        }
        let at = curve.partition_point(|point| point.1 > cost);
        let (a, b) = (curve[at - 1], curve[at]);
        Some(a.0 + (b.0 - a.0) * (a.1 - cost) / (a.1 - b.1))
    }
}

fn is_same(one: f64, other: f64) -> bool {
    (one / other).ln().abs() < SAME
}

/// Points, pooled until costs fall with size (isotonic regression).
fn falling(points: &[Point]) -> Vec<(f64, f64)> {
    let mut pooled: Vec<(f64, f64, f64)> = Vec::with_capacity(points.len());
    for point in points {
        let mut next = (point.size, point.cost, point.weight);
        while let Some(before) = pooled.last().filter(|before| before.1 <= next.1) {
            let weight = before.2 + next.2;
            let cost = (before.1 * before.2 + next.1 * next.2) / weight;
            let size = (before.0 * before.2 + next.0 * next.2) / weight;
            next = (size, cost, weight);
            pooled.pop();
        }
        pooled.push(next);
    }
    pooled
        .into_iter()
        .map(|(size, cost, _)| (size, cost))
        .collect()
}

impl Point {
    const fn new(size: f64, cost: f64, moving: bool) -> Self {
        Self {
            size,
            cost,
            weight: if moving { MOVING_WEIGHT } else { 1.0 },
            age: 0,
            moving,
        }
    }
}

/// Observations over which noise is averaged.
const NOISE_MEMORY: f64 = 16.0;
/// A cost that is lower than asked for by this leaves room for smaller sizes,
const AMPLE: f64 = 0.02;
/// of which the first one is so much smaller, as a logarithm: not the same as what is known.
const TELLING: f64 = 0.12;
/// No size is smaller.
const TINY: f64 = 1e-9;
/// How far a guess may lead away from what is known, as a logarithm.
const FURTHEST: f64 = 1.5;

fn grow_power(curve: &[(f64, f64)]) -> f64 {
    let known = curve.windows(2).last().and_then(power);
    known.map_or(GROW, |power| power.clamp(0.2, 1.5))
}

fn shrink_power(curve: &[(f64, f64)]) -> f64 {
    const CAUTION: f64 = 1.3;
    let known = curve.windows(2).next().and_then(power);
    known.map_or(SHRINK, |power| (power * CAUTION).clamp(0.3, 3.0))
}

/// The power between two points, unless they are too near to tell.
fn power(pair: &[(f64, f64)]) -> Option<f64> {
    const NEAR: f64 = 0.1;
    let [a, b] = pair else { return None };
    let apart = (b.0 / a.0).ln();
    (apart > NEAR).then(|| (a.1 - b.1) / apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn settle(response: &mut Response, size: f64, cost: f64) {
        for _ in 0..3 {
            response.observe(size, cost, false);
        }
    }

    #[test]
    fn chords_suffice() {
        let mut response = Response::default();
        settle(&mut response, 100.0, 1.0);
        settle(&mut response, 300.0, -1.0);
        assert!((response.size_for(0.0).unwrap() - 200.0).abs() < 1.0);
        assert!((response.cost_at(200.0)).abs() < 0.01);
    }

    #[test]
    fn beyond_what_is_known_a_power_law_guesses() {
        let mut response = Response::default();
        assert!(response.size_for(0.0).is_none());
        settle(&mut response, 100.0, 0.7);
        assert!((response.size_for(0.0).unwrap() - 100.0 * 1.0_f64.exp()).abs() < 1.0);
        // Cutting is done with more care than growing.
        let smaller = response.size_for(1.4).unwrap();
        assert!(smaller > 60.0 && smaller < 100.0, "{smaller}");
    }

    #[test]
    fn noise_is_averaged_and_change_is_noticed() {
        let mut response = Response::default();
        for step in 0..20 {
            let noise = if step % 2 == 0 { 0.03 } else { -0.03 };
            response.observe(100.0, 0.5 + noise, false);
        }
        assert!((response.cost_at(100.0) - 0.5).abs() < 0.02);
        settle(&mut response, 100.0, -0.5);
        assert!((response.cost_at(100.0) + 0.5).abs() < 0.05);
    }

    #[test]
    fn what_was_seen_on_the_way_is_forgotten() {
        let mut response = Response::default();
        response.observe(100.0, 0.5, true);
        for looks in 0..=MOVING_AGE {
            assert_eq!(response.sizes(), 1 + usize::from(looks > 0), "{looks}");
            response.observe(1000.0, -0.5, false);
        }
        assert_eq!(response.sizes(), 1);
    }

    proptest! {
        /// Whatever was observed, the curve falls and its inverse belongs to it.
        #[test]
        fn curves_fall(seen in prop::collection::vec((1.0..1e6f64, -3.0..3.0f64, any::<bool>()), 1..40)) {
            let mut response = Response::default();
            for (size, cost, moving) in seen {
                response.observe(size, cost, moving);
            }
            let mut before = f64::INFINITY;
            for step in 0..60 {
                let size = 1.3_f64.powi(step);
                let cost = response.cost_at(size);
                prop_assert!(cost <= before + 1e-6, "{cost} after {before}");
                before = cost;
            }
            let mut larger = f64::INFINITY;
            for step in -10..10 {
                let size = response.size_for(f64::from(step) * 0.4).unwrap();
                prop_assert!(size.is_finite() && size > 0.0 && size <= larger * (1.0 + 1e-9));
                larger = size;
            }
        }
    }
}
