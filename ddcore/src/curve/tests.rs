// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use ddabi::key::mix;
use proptest::prelude::*;
use std::collections::VecDeque;

/// The exact stack, youngest key first.
#[derive(Default)]
struct Stack {
    pages: VecDeque<u64>,
    distances: Vec<u64>,
}

impl Stack {
    fn left(&mut self, page: u64) {
        self.pages.retain(|other| *other != page);
        self.pages.push_front(page);
    }

    fn read(&mut self, page: u64) {
        if let Some(place) = self.pages.iter().position(|other| *other == page) {
            self.pages.remove(place);
            self.distances.push(place as u64 + 1);
        }
    }

    fn hits(&self, pages: u64) -> u64 {
        self.distances.iter().filter(|d| **d <= pages).count() as u64
    }
}

fn curve(slots: usize) -> Curve<Vec<Slot>> {
    Curve::new(vec![Slot::default(); slots])
}

fn hash(page: u64) -> u64 {
    mix(page + 1)
}

#[test]
fn an_empty_curve_promises_nothing() {
    let mut curve = curve(0);
    curve.left(hash(1));
    curve.read(hash(1));
    assert_eq!((curve.reads(), curve.hits(1 << 40)), (1, 0));
    assert_eq!(self::curve(64).error_permille(), 1000);
}

#[test]
fn removed_keys_are_not_reused() {
    let mut curve = curve(64);
    curve.left(hash(1));
    curve.gone(hash(1));
    curve.read(hash(1));
    assert_eq!(curve.hits(u64::MAX), 0);
}

/// All reads of a loop have the same distance, even at a low sampling rate.
#[test]
fn a_loop_is_a_cliff() {
    let mut curve = curve(1024);
    for _ in 0..20 {
        for page in 0..100_000 {
            curve.read(hash(page));
            curve.left(hash(page));
        }
    }
    assert!(curve.level() >= 6);
    let ratio = |pages| curve.hits(pages) as f64 / curve.reads() as f64;
    assert!(ratio(80_000) < 0.05, "{}", ratio(80_000));
    assert!(ratio(125_000) > 0.85, "{}", ratio(125_000));
}

/// For a skewed load the sampled curve agrees with the exact stack at low sampling rates.
#[test]
fn sampled_curves_are_within_their_error() {
    let (mut curve, mut stack) = (curve(1024), Stack::default());
    let mut state = 7u64;
    let mut resident = VecDeque::new();
    for _ in 0..60_000 {
        state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        // Squares are skewed towards small numbers.
        let unit = (state >> 40) as f64 / (1u64 << 24) as f64;
        let page = (unit * unit * 20_000.0) as u64;
        if resident.contains(&page) {
            continue;
        }
        curve.read(hash(page));
        stack.read(page);
        resident.push_back(page);
        if resident.len() > 500 {
            let page = resident.pop_front().unwrap();
            curve.left(hash(page));
            stack.left(page);
        }
    }
    assert!(curve.level() >= 3);
    for pages in [1_000, 2_000, 4_000, 8_000, 12_000] {
        let reads = curve.reads() as f64;
        let (ours, exact) = (curve.hits(pages) as f64, stack.hits(pages) as f64);
        let error = (ours - exact).abs() / reads;
        // The bound is three standard errors.
        let bound = 3.0 * f64::from(curve.error_permille()) / 1000.0;
        assert!(error < bound, "{pages}: {ours} {exact} of {reads}");
    }
}

proptest! {
    /// Without sampling and with one or two keys in each group, positions are nearly exact, and the
    /// counts of the groups add up to the number of keys.
    #[test]
    fn unsampled_curves_follow_the_stack(ops in prop::collection::vec((0u8..8, 0u64..60), 0..800)) {
        let (mut curve, mut stack) = (curve(64), Stack::default());
        for (kind, page) in ops {
            match kind {
                0 => {
                    curve.gone(hash(page));
                    stack.pages.retain(|other| *other != page);
                }
                1..=4 => {
                    curve.left(hash(page));
                    stack.left(page);
                }
                _ => {
                    curve.read(hash(page));
                    stack.read(page);
                }
            }
            prop_assert_eq!(usize::from(curve.used), stack.pages.len());
            let counted: usize = curve.counts.iter().map(|n| usize::from(*n)).sum();
            prop_assert_eq!(counted, stack.pages.len());
        }
        prop_assert_eq!(curve.hits(u64::MAX), stack.distances.len() as u64);
        let last = curve.points().last().unwrap();
        prop_assert_eq!(last.hits, stack.distances.len() as u64);
    }

    /// With any hashes and any number of slots nothing overflows, and the curve never falls.
    #[test]
    fn curves_rise(slots in 0usize..40, ops in prop::collection::vec((any::<bool>(), 0u64..300), 0..600)) {
        let mut curve = curve(slots);
        for (left, page) in ops {
            if left { curve.left(hash(page)) } else { curve.read(hash(page)) }
        }
        curve.fade();
        let hits: Vec<u64> = curve.points().map(|point| point.hits).collect();
        prop_assert!(hits.is_sorted());
        prop_assert!(curve.hits(1) <= curve.hits(1 << 30));
    }
}
