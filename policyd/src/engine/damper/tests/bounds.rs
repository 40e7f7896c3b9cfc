// SPDX-License-Identifier: GPL-2.0-only

//! Tests of the end of moves, and of the largest weight after rounding.

use super::*;

/// A move continues to its end, although the remaining distance alone would be no reason to move.
#[test]
fn a_move_is_finished() {
    let mut damper = damper(&[0.5, 0.5]);
    let mut step = || damper.step(wanted(&[0.8, 0.2]), |_| false, Share(0.25));
    let moved: Vec<bool> = (0..6).map(|_| step()).collect();
    assert_eq!(moved, [false, false, true, true, false, false]);
    assert!((damper.share("/0").0 - 0.8).abs() < 1e-9);
}

/// Each container has a weight of at least 1. The largest weight is reduced by the units that this
/// adds.
#[test]
fn the_smallest_are_paid_for_by_the_largest() {
    const SMALL: u32 = 1000;
    let mut given = vec![1.0];
    given.resize(1 + SMALL as usize, 1e-9);
    let weights = damper(&given).weights(Share::ALL, Shares::new());
    assert_eq!(weights["/0"], WEIGHT_SUM - SMALL);
    assert_eq!(weights.values().sum::<u32>(), WEIGHT_SUM);
}
