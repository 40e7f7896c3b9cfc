// SPDX-License-Identifier: GPL-2.0-only

//! Hit-ratio curves that were estimated from samples (SHARDS).

use super::quantity::Pages;
use ddnl::Pool;

/// The fewest reads of a usable curve.
const FEWEST_READS: u64 = 1_000;

/// The largest standard error of a usable curve, in parts of a thousand of the reads.
const MAX_ERROR: u64 = 50;

/// The hit ratio as a function of the store's size, with which it rises.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve(Vec<Point>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    size: Pages,
    ratio: f64,
}

/// A segment of a hull.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slope {
    /// Its length, above 0.
    pub(super) length: Pages,
    /// The gain of the hit ratio by each of its pages, 0 to 1.
    pub(super) gain: f64,
}

impl Slope {
    fn between(one: &Point, other: &Point) -> Self {
        let length = other.size - one.size;
        Self {
            length,
            gain: (other.ratio - one.ratio) / length.0,
        }
    }
}

impl Curve {
    /// Creates a curve through points of store size (pages) and hit ratio (0 to 1), in any order.
    /// Estimates are noisy, so that points that fall are lifted to the ones before them. Returns
    /// `None` without any valid point.
    pub fn new(points: impl IntoIterator<Item = (u64, f64)>) -> Option<Self> {
        let mut points: Vec<Point> = points
            .into_iter()
            .filter(|(_, ratio)| (0.0..=1.0).contains(ratio))
            .map(|(pages, ratio)| Point {
                size: Pages(pages as f64),
                ratio,
            })
            .collect();
        points.sort_by(|a, b| a.size.0.total_cmp(&b.size.0));
        points.dedup_by_key(|point| point.size);
        let mut highest = 0.0_f64;
        for point in &mut points {
            highest = highest.max(point.ratio);
            point.ratio = highest;
        }
        if points.first()?.size > Pages::ZERO {
            let (size, ratio) = (Pages::ZERO, 0.0);
            points.insert(0, Point { size, ratio });
        }
        Some(Self(points))
    }

    /// Returns the curve that the module has sampled of a pool; `None` while it rests on too few
    /// reads.
    ///
    /// The module counts hits among all reads, including the first read of each page, which no
    /// store could have served. The hit ratio is therefore relative to the hits of the largest
    /// store. The kernel counts this number of reads as refaults, and policyd as requested pages.
    pub(super) fn of_pool(pool: &Pool) -> Option<Self> {
        let admission = pool.admission.as_ref()?;
        let points = pool.curve.as_deref()?;
        let back = points.iter().map(|point| point.hits).max()?;
        let tells = admission.reads >= FEWEST_READS
            && admission.curve_error_permille <= MAX_ERROR
            && back > 0;
        if !tells {
            return None;
        }
        let ratio = |hits: u64| hits as f64 / back as f64;
        Self::new(points.iter().map(|point| (point.pages, ratio(point.hits))))
    }

    /// Returns the hit ratio of a store of this size.
    pub(super) fn hit_ratio(&self, size: Pages) -> f64 {
        let after = self.0.partition_point(|point| point.size <= size);
        let before = after.checked_sub(1).and_then(|at| self.0.get(at));
        match (before, self.0.get(after)) {
            (Some(a), Some(b)) => {
                a.ratio + (b.ratio - a.ratio) * (size - a.size).0 / (b.size - a.size).0
            }
            (Some(last), None) => last.ratio,
            (None, _) => 0.0,
        }
    }

    /// Returns the smallest size that reaches a hit ratio; `None` if none does.
    pub(super) fn size_for(&self, ratio: f64) -> Option<Pages> {
        let at = self.0.partition_point(|point| point.ratio < ratio);
        let b = self.0.get(at)?;
        match at.checked_sub(1).map(|before| self.0[before]) {
            Some(a) if b.ratio > a.ratio => {
                Some(a.size + (b.size - a.size) * (ratio - a.ratio) / (b.ratio - a.ratio))
            }
            _ => Some(b.size),
        }
    }

    /// Returns the slopes of the upper concave hull of the curve beyond a size, the steepest first.
    /// Their sum is the gain of the curve. A gain that comes only at a larger size counts as if it
    /// came evenly up to there.
    pub(super) fn slopes_beyond(&self, size: Pages) -> Vec<Slope> {
        let ratio = self.hit_ratio(size);
        let beyond = self.0.iter().filter(|point| point.size > size);
        let mut hull = vec![Point { size, ratio }];
        for point in beyond {
            while let [.., a, b] = hull.as_slice() {
                if Slope::between(a, b).gain > Slope::between(b, point).gain {
                    break;
                }
                hull.pop();
            }
            hull.push(*point);
        }
        let slopes = hull.windows(2);
        let slopes = slopes.map(|pair| Slope::between(&pair[0], &pair[1]));
        slopes.filter(|slope| slope.gain > 0.0).collect()
    }

    /// Returns the gain of the hit ratio from one size to a larger one.
    pub(super) fn gain(&self, size: Pages, larger: Pages) -> f64 {
        (self.hit_ratio(larger) - self.hit_ratio(size)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ddabi::counters::{AdmissionCounters, CurvePoint};
    use ddabi::policy::Policy;
    use ddabi::pool::{SsdAdmit, Store};
    use proptest::prelude::*;

    fn pool(reads: u64, error: u64, points: &[(u64, u64)]) -> Pool {
        let point = |&(pages, hits): &(u64, u64)| CurvePoint { pages, hits };
        Pool {
            vm: None,
            id: 1,
            name: "web".into(),
            cgroup_id: None,
            cgroup: None,
            weight: 100,
            ssd_weight: 100,
            store: Store::Memory,
            policy: Policy::default(),
            ssd_admit: SsdAdmit::All,
            admission: Some(AdmissionCounters {
                reads,
                curve_error_permille: error,
                ..AdmissionCounters::default()
            }),
            curve: Some(points.iter().map(point).collect()),
            stats: None,
        }
    }

    #[test]
    fn sampled_hit_ratios_are_relative_to_repeated_reads() {
        let points = [(100, 300), (400, 600)];
        let curve = Curve::of_pool(&pool(9_000, 20, &points)).unwrap();
        assert_eq!(curve.hit_ratio(Pages(100.0)), 0.5);
        assert_eq!(curve.hit_ratio(Pages(400.0)), 1.0);
        assert_eq!(Curve::of_pool(&pool(999, 20, &points)), None);
        assert_eq!(Curve::of_pool(&pool(9_000, 51, &points)), None);
        assert_eq!(Curve::of_pool(&pool(9_000, 20, &[(100, 0)])), None);
        assert_eq!(Curve::of_pool(&pool(9_000, 20, &[])), None);
    }

    #[test]
    fn between_points_the_curve_is_straight() {
        let curve = Curve::new([(200, 0.6), (100, 0.4), (300, 0.5)]).unwrap();
        assert!((curve.hit_ratio(Pages(50.0)) - 0.2).abs() < 1e-9);
        assert!((curve.hit_ratio(Pages(150.0)) - 0.5).abs() < 1e-9);
        assert!((curve.hit_ratio(Pages(9e9)) - 0.6).abs() < 1e-9);
        assert_eq!(curve.size_for(0.5), Some(Pages(150.0)));
        assert_eq!(curve.size_for(0.7), None);
        assert!(Curve::new([(1, f64::NAN), (2, 1.5)]).is_none());
    }

    #[test]
    fn a_cliff_counts_as_a_slope_up_to_its_end() {
        let curve = Curve::new([(100, 0.5), (199, 0.5), (200, 0.9), (400, 1.0)]).unwrap();
        let slopes: Vec<(f64, f64)> = curve
            .slopes_beyond(Pages(50.0))
            .into_iter()
            .map(|slope| (slope.length.0, slope.gain * slope.length.0))
            .collect();
        let expected = [(50.0, 0.25), (100.0, 0.4), (200.0, 0.1)];
        assert_eq!(slopes.len(), expected.len(), "{slopes:?}");
        for (found, expected) in slopes.iter().zip(expected) {
            assert!((found.0 - expected.0).abs() < 1e-9 && (found.1 - expected.1).abs() < 1e-9);
        }
        assert_eq!(curve.slopes_beyond(Pages(400.0)), []);
    }

    proptest! {
        #[test]
        fn hulls_are_concave_and_above(
            points in prop::collection::vec((1..10_000u64, 0.0..1.0f64), 1..20),
            size in 0.0..10_000.0f64,
        ) {
            let curve = Curve::new(points).unwrap();
            let size = Pages(size);
            let (mut at, mut ratio) = (size, curve.hit_ratio(size));
            let mut before = f64::INFINITY;
            for slope in curve.slopes_beyond(size) {
                prop_assert!(slope.length > Pages::ZERO && slope.gain <= before);
                at += slope.length;
                ratio += slope.gain * slope.length.0;
                prop_assert!(ratio + 1e-9 >= curve.hit_ratio(at));
                before = slope.gain;
            }
            prop_assert!((ratio - curve.hit_ratio(size.max(Pages(20_000.0)))).abs() < 1e-9);
        }

        #[test]
        fn curves_rise_and_turn_back(
            points in prop::collection::vec((1..10_000u64, 0.0..1.0f64), 1..20),
            ratio in 0.01..1.0f64,
        ) {
            let curve = Curve::new(points).unwrap();
            let mut before = 0.0;
            for pages in (0..11_000).step_by(97) {
                let now = curve.hit_ratio(Pages(f64::from(pages)));
                prop_assert!((before..=1.0).contains(&now));
                before = now;
            }
            if let Some(pages) = curve.size_for(ratio) {
                prop_assert!(curve.hit_ratio(pages) >= ratio - 1e-9);
            }
        }
    }
}
