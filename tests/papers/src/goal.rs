// SPDX-License-Identifier: GPL-2.0

//! What the figures promise.

use crate::figure::Figure;
use crate::verdict::{Band, Verdict, judge};
use ddsim::goal::Goal;

/// The papers' figures and tables of the memory tier in the order of the page, without those that
/// only describe a setup.
pub const MEMORY_TIER: [&str; 13] = [
    "DoubleDecker, figure 3",
    "DoubleDecker, figure 4",
    "DoubleDecker, figure 5",
    "DoubleDecker, table 1",
    "DoubleDecker, figure 9",
    "DoubleDecker, figure 10",
    "DoubleDecker, table 2",
    "DoubleDecker, figure 11",
    "DoubleDecker, figure 12",
    "DoubleDecker, table 4",
    "Thesis, figure 5.7",
    "DoubleDecker, figure 13",
    "DoubleDecker, figure 14",
];

/// Part of these that shall be reproduced.
const REPRODUCED: f64 = 0.9;

/// Part of the store by which a share may be off its weight's.
pub const OFF: Band = Band::Within(PART);
const PART: f64 = 0.01;

/// The figures of shares: what is given a share by a weight has it.
const SHARES: [&str; 2] = ["DoubleDecker, figure 13", "DoubleDecker, figure 14"];

/// What the figures promise. A figure that is absent is not reproduced, and has no share.
pub fn of_figures(figures: &[Figure]) -> Vec<Goal> {
    let find = |name: &str| figures.iter().find(|figure| figure.name == name);
    let reproduced = |name: &&&str| {
        let figure = find(name);
        figure.is_some_and(|figure| judge(figure).verdict == Verdict::Reproduced)
    };
    let part = MEMORY_TIER.iter().filter(reproduced).count() as f64 / MEMORY_TIER.len() as f64;
    let name = "part of the papers' figures and tables of the memory tier that are reproduced";
    let mut goals = vec![Goal::at_least(name, REPRODUCED, part)];
    goals.extend(SHARES.map(|name| {
        let rows = find(name).map_or(&[][..], |figure| &figure.compared);
        let off = rows
            .iter()
            .map(|row| row.paper.map_or(1.0, |paper| (row.ours - paper).abs()));
        let off = off.reduce(f64::max).unwrap_or(1.0);
        let name = format!("{name}: part of the store by which a share is off");
        Goal::at_most(name, PART, off)
    }));
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Compared;

    fn share(name: &'static str, ours: f64) -> Figure {
        Figure {
            name,
            title: "",
            parts: Vec::new(),
            compared: vec![Compared::new("x", "of the store", 0.6, ours).within(OFF)],
            orders: Vec::new(),
            note: String::new(),
        }
    }

    #[test]
    fn absent_figures_are_missed() {
        assert!(of_figures(&[]).iter().all(|goal| !goal.met));
        let all: Vec<Figure> = MEMORY_TIER.map(|name| share(name, 0.605)).into();
        assert!(of_figures(&all).iter().all(|goal| goal.met));
        // Twelve of thirteen are enough, eleven are not.
        assert!(of_figures(&all[1..])[0].met);
        assert!(!of_figures(&all[2..])[0].met);
    }

    #[test]
    fn a_share_off_by_more_than_a_hundredth_is_missed() {
        let goals = of_figures(&[share(SHARES[0], 0.611), share(SHARES[1], 0.595)]);
        let met: Vec<bool> = goals.iter().map(|goal| goal.met).collect();
        assert_eq!(met, [false, false, true]);
    }
}
