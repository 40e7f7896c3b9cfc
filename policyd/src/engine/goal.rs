// SPDX-License-Identifier: GPL-2.0-only

//! The distance of a container from its target.
//!
//! All kinds of targets are converted to one number, the *cost*: the natural logarithm of the
//! factor by which a container is worse than its target. It is 0 at the target, and negative if the
//! container is better. For the figures that a cache affects (time of an operation, share of
//! misses) the cost falls with the store's size and is convex in it, which [`super::response`]
//! relies on.

use super::{quantity::Cost, rates::Rates, sample::Reading};
use crate::config::{Figure, Target};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A figure and its target.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Goal {
    /// The figure.
    pub figure: Figure,
    /// The target, in the figure's unit.
    pub target: f64,
    /// The measured value; absent if it could not be measured.
    pub measured: Option<f64>,
}

impl Goal {
    /// Returns whether it is met; `None` if it was not measured.
    pub fn is_met(&self) -> Option<bool> {
        self.cost().map(|cost| cost <= Cost::TARGET)
    }

    /// Returns the cost; `None` if it was not measured.
    pub(super) fn cost(&self) -> Option<Cost> {
        let measured = self
            .measured
            .filter(|value| value.is_finite() && *value >= 0.0)?;
        let worse = match self.figure {
            // The share of misses counts.
            Figure::HitRatio => (1.0 - measured) / (1.0 - self.target).max(NOTHING),
            Figure::Throughput => self.target / measured.max(self.target * NOTHING),
            _ => measured / self.target,
        };
        Some(Cost::of_times(worse.max(NOTHING)))
    }
}

/// Values below this count as this one, so that a logarithm exists.
const NOTHING: f64 = 1e-3;

/// Returns the goals of a target with their measured values.
pub(super) fn of(target: &Target, reading: &Reading, rates: Option<&Rates>) -> Vec<Goal> {
    let measure = |figure| {
        let rates = rates?;
        match figure {
            Figure::Throughput => reading.application,
            Figure::Latency if target.source.is_some() => reading.application,
            Figure::Latency => rates.latency_ms(target.percentile),
            Figure::HitRatio => rates.hit_ratio(),
            Figure::RefaultRate => Some(rates.refaults_file + rates.refaults_anon),
            Figure::MemoryPressure => rates.memory_pressure,
            Figure::IoPressure => rates.io_pressure,
        }
    };
    let goal = |(figure, target)| Goal {
        figure,
        target,
        measured: measure(figure),
    };
    target.goals().map(goal).collect()
}

/// Returns the cost of the goal that is furthest from being met; `None` as long as any is not
/// measured.
pub(super) fn worst(goals: &[Goal]) -> Option<Cost> {
    let costs: Option<Vec<Cost>> = goals.iter().map(Goal::cost).collect();
    costs?.into_iter().reduce(Cost::max)
}

/// Returns whether only goals of one kind are missed.
pub(super) fn misses_only(goals: &[Goal], figure: Figure) -> bool {
    let missed = |goal: &&Goal| goal.is_met() == Some(false);
    let mut missed = goals.iter().filter(missed).peekable();
    missed.peek().is_some() && missed.all(|goal| goal.figure == figure)
}

#[cfg(test)]
mod tests {
    mod missed;

    use super::*;

    fn cost(figure: Figure, target: f64, measured: f64) -> f64 {
        let goal = Goal {
            figure,
            target,
            measured: Some(measured),
        };
        goal.cost().unwrap().0
    }

    #[test]
    fn costs_are_comparable() {
        let double = 2.0_f64.ln();
        assert_eq!(cost(Figure::Throughput, 900.0, 450.0), double);
        assert_eq!(cost(Figure::Latency, 5.0, 10.0), double);
        assert!((cost(Figure::HitRatio, 0.8, 0.6) - double).abs() < 1e-9);
        assert!(cost(Figure::Throughput, 900.0, 1000.0) < 0.0);
    }

    #[test]
    fn extremes_stay_finite() {
        for figure in [Figure::Throughput, Figure::Latency, Figure::HitRatio] {
            for measured in [0.0, 1.0, 1e300] {
                assert!(
                    cost(figure, 0.9, measured).is_finite(),
                    "{figure:?} {measured}"
                );
            }
        }
    }

    #[test]
    fn the_worst_goal_counts_and_all_must_be_known() {
        let goal = |measured| Goal {
            figure: Figure::Latency,
            target: 1.0,
            measured,
        };
        let goals = [goal(Some(0.5)), goal(Some(2.0))];
        assert_eq!(worst(&goals), Some(Cost(2.0_f64.ln())));
        assert_eq!(worst(&[goal(Some(0.5)), goal(None)]), None);
        assert_eq!(worst(&[goal(Some(f64::NAN))]), None);
    }
}
