// SPDX-License-Identifier: GPL-2.0-only

//! Tests of which goals count as missed.

use super::*;

#[test]
fn a_goal_that_is_met_is_not_missed() {
    let goal = |figure, measured| Goal {
        figure,
        target: 10.0,
        measured: Some(measured),
    };
    let slow = goal(Figure::Throughput, 5.0);
    let fast = goal(Figure::Throughput, 20.0);
    let (late, soon) = (goal(Figure::Latency, 20.0), goal(Figure::Latency, 5.0));
    let only = |goals: &[Goal]| misses_only(goals, Figure::Throughput);
    assert!(only(&[slow]) && only(&[slow, soon]));
    assert!(!only(&[fast]) && !only(&[fast, soon]));
    assert!(!only(&[slow, late]) && !only(&[fast, late]));
    // A figure that equals the target meets it.
    let exact = goal(Figure::Latency, 10.0);
    assert!(only(&[slow, exact]));
}
