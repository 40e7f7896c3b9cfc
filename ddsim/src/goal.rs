// SPDX-License-Identifier: GPL-2.0-only

//! The goals of the default policy, and whether they are met.

use crate::table::{Criterion, Row};
use ddcore::policy::Policy;
use serde::Serialize;

/// Least fraction of FIFO's hits that the default policy must reach on every load.
const LEAST: f64 = 0.99;
/// Least ratio of its hits to FIFO's on a trace.
const MORE_HITS: f64 = 1.5;
/// Maximum ratio of its puts per hit to FIFO's on a trace.
const FEWER_PUTS: f64 = 0.5;
/// Least fraction of Belady's hits on a loop that does not fit. It is 0.90; the same source gives
/// the same figure.
const OF_LOOP: f64 = 0.85;

/// A goal and its result, in the format of all results of this project.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// The measured quantity.
    pub name: String,
    /// The goal.
    pub target: String,
    /// The measured value.
    pub measured: String,
    /// Whether the goal is met.
    pub met: bool,
}

impl Goal {
    /// Returns the goal for a value that must be at least `least`.
    pub fn at_least(name: impl Into<String>, least: f64, measured: f64) -> Self {
        Self {
            name: name.into(),
            target: format!("≥ {least}"),
            measured: format!("{measured:.3}"),
            met: measured >= least,
        }
    }

    /// Returns the goal for a value that must be at most `limit`.
    pub fn at_most(name: impl Into<String>, limit: f64, measured: f64) -> Self {
        Self {
            name: name.into(),
            target: format!("≤ {limit}"),
            measured: format!("{measured:.3}"),
            met: measured <= limit,
        }
    }

    /// Returns a missed goal for which nothing was measured.
    fn unmeasured(name: &str) -> Self {
        Self {
            name: format!("default policy: {name}"),
            target: "at least one load".into(),
            measured: "none".into(),
            met: false,
        }
    }
}

/// The criteria for which the table must have a load, and the goals that this load measures.
const NEEDED: [(Criterion, &str); 2] = [
    (Criterion::Trace, "loads judged as a real machine"),
    (Criterion::Loop, "loads judged as a loop"),
];

/// Returns the goals of the default policy, measured from the rows of the policy table. A goal is
/// missed if no row measures it, so that a load that is renamed or removed does not take its goal
/// with it.
pub fn of_policies(rows: &[Row]) -> Vec<Goal> {
    let mut goals = Vec::new();
    let relative = |row: &Row| {
        let paper = row.of(Policy::Fifo).hits;
        (paper > 0).then(|| row.of(Policy::default()).hits as f64 / paper as f64)
    };
    let worst = rows
        .iter()
        .filter_map(|row| Some((relative(row)?, row)))
        .min_by(|one, other| one.0.total_cmp(&other.0));
    goals.push(match worst {
        Some((least, row)) => {
            let name = format!("default policy: hits by FIFO's, worst load ({})", row.name);
            Goal::at_least(name, LEAST, least)
        }
        None => Goal::unmeasured("loads on which FIFO has hits"),
    });
    for row in rows {
        let (ours, paper) = (row.of(Policy::default()), row.of(Policy::Fifo));
        match row.judged {
            Criterion::Bound => {}
            Criterion::Trace => {
                let name = format!("default policy, {}", row.name);
                let hits = relative(row).unwrap_or(0.0);
                goals.push(Goal::at_least(
                    format!("{name}: hits by FIFO's"),
                    MORE_HITS,
                    hits,
                ));
                let puts = ours.puts_per_hit().unwrap_or(f64::INFINITY);
                let puts = puts / paper.puts_per_hit().unwrap_or(f64::INFINITY);
                let name = format!("{name}: puts per hit by FIFO's");
                goals.push(Goal::at_most(name, FEWER_PUTS, puts));
            }
            Criterion::Loop => {
                let name = format!("default policy, {}: hits by Belady's", row.name);
                let part = ours.hits as f64 / (row.belady.hits as f64).max(1.0);
                goals.push(Goal::at_least(name, OF_LOOP, part));
            }
        }
    }
    for (criterion, name) in NEEDED {
        if rows.iter().all(|row| row.judged != criterion) {
            goals.push(Goal::unmeasured(name));
        }
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{Outcome, Sizes};

    fn row(judged: Criterion, hits: u64, puts: u64) -> Row {
        let outcome = |hits, puts| Outcome {
            accesses: 1000,
            hits,
            puts,
            ..Outcome::default()
        };
        Row {
            name: "x".into(),
            judged,
            sizes: Sizes::new(1, 1),
            inclusive: Outcome::default(),
            policies: vec![
                (Policy::default(), outcome(hits, puts)),
                (Policy::Fifo, outcome(100, 600)),
            ],
            belady: outcome(200, 200),
        }
    }

    #[test]
    fn each_load_is_judged_by_its_kind() {
        let met = |judged, hits, puts| {
            let goals = of_policies(&[row(judged, hits, puts)]);
            let measured = goals.iter().filter(|goal| goal.measured != "none");
            measured.map(|goal| goal.met).collect::<Vec<bool>>()
        };
        assert_eq!(met(Criterion::Bound, 99, 1), [true]);
        assert_eq!(met(Criterion::Bound, 98, 1), [false]);
        assert_eq!(met(Criterion::Trace, 150, 450), [true, true, true]);
        assert_eq!(met(Criterion::Trace, 149, 500), [true, false, false]);
        assert_eq!(met(Criterion::Loop, 170, 1), [true, true]);
        assert_eq!(met(Criterion::Loop, 169, 1), [true, false]);
    }

    #[test]
    fn goals_without_a_load_are_missed() {
        let missed = |kinds: &[Criterion]| {
            let rows: Vec<Row> = kinds.iter().map(|kind| row(*kind, 180, 1)).collect();
            let goals = of_policies(&rows);
            let missed = goals.iter().filter(|goal| !goal.met);
            missed
                .map(|goal| goal.name.clone())
                .collect::<Vec<String>>()
        };
        let machine = "default policy: loads judged as a real machine";
        let repeated = "default policy: loads judged as a loop";
        let hits = "default policy: loads on which FIFO has hits";
        let all = [Criterion::Bound, Criterion::Trace, Criterion::Loop];
        assert_eq!(missed(&all), [""; 0]);
        assert_eq!(missed(&all[..2]), [repeated]);
        assert_eq!(missed(&[Criterion::Loop]), [machine]);
        assert_eq!(missed(&[]), [hits, machine, repeated]);
    }
}
