// SPDX-License-Identifier: GPL-2.0-only

//! The promises about the figures.

use crate::figure::Figure;
use crate::verdict::{Band, Verdict, judge};
use ddsim::goal::Goal;

/// The papers' figures and tables of the memory tier in the order of the page, without those that
/// only describe a setup, with the number of judged numbers and orders of each.
pub const MEMORY_TIER: [(&str, usize); 13] = [
    ("DoubleDecker, figure 3", 2),
    ("DoubleDecker, figure 4", 4),
    ("DoubleDecker, figure 5", 8),
    ("DoubleDecker, table 1", 10),
    ("DoubleDecker, figure 9", 4),
    ("DoubleDecker, figure 10", 3),
    ("DoubleDecker, table 2", 12),
    ("DoubleDecker, figure 11", 11),
    ("DoubleDecker, figure 12", 3),
    ("DoubleDecker, table 4", 13),
    ("Thesis, figure 5.7", 3),
    ("DoubleDecker, figure 13", 7),
    ("DoubleDecker, figure 14", 6),
];

/// Fraction of these that must be reproduced.
const REPRODUCED: f64 = 0.9;

/// Maximum deviation of a share from that of its weight, as a fraction of the store.
pub const OFF: Band = Band::Within(PART);
const PART: f64 = 0.01;

/// The figures about shares, which must follow the weights.
const SHARES: [&str; 2] = ["DoubleDecker, figure 13", "DoubleDecker, figure 14"];

/// Returns the promises. A figure that is absent, or of which less is judged than expected, is not
/// reproduced and has no share.
pub fn of_figures(figures: &[Figure]) -> Vec<Goal> {
    let find = |wanted: &str| {
        let (_, judged) = MEMORY_TIER.iter().find(|(name, _)| *name == wanted)?;
        let figure = figures.iter().find(|figure| figure.name == wanted)?;
        (judge(figure).judged == *judged).then_some(figure)
    };
    let reproduced = |(name, _): &&(&str, usize)| {
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
    use crate::verdict::{Order, Place};

    /// Returns a figure with the expected number of judged values, all of which are `ours`.
    fn share((name, judged): (&'static str, usize), ours: f64) -> Figure {
        Figure {
            name,
            title: "",
            parts: Vec::new(),
            compared: vec![Compared::new("x", "of the store", 0.6, ours).within(OFF); judged],
            orders: Vec::new(),
            note: String::new(),
        }
    }

    /// Returns all figures with the expected values.
    fn all() -> Vec<Figure> {
        MEMORY_TIER.map(|figure| share(figure, 0.605)).into()
    }

    fn met(figures: &[Figure]) -> Vec<bool> {
        of_figures(figures).iter().map(|goal| goal.met).collect()
    }

    #[test]
    fn absent_figures_are_missed() {
        assert_eq!(met(&[]), [false; 3]);
        assert_eq!(met(&all()), [true; 3]);
        // Twelve of thirteen suffice, and eleven do not.
        assert!(met(&all()[1..])[0]);
        assert!(!met(&all()[2..])[0]);
    }

    /// Breaks two figures, because one may be missed.
    fn broken(how: impl Fn(&mut Figure)) -> bool {
        let mut figures = all();
        figures[..2].iter_mut().for_each(how);
        !met(&figures)[0]
    }

    #[test]
    fn goals_that_are_renamed_lost_or_reordered_are_found() {
        assert!(!broken(|_| {}));
        assert!(broken(|figure| figure.name = "DoubleDecker, figure 3b"));
        assert!(broken(|figure| drop(figure.compared.pop())));
        assert!(broken(|figure| figure.compared[0].band = Band::Shown));
        assert!(broken(|figure| figure.compared[0].ours = 0.62));
        assert!(broken(|figure| {
            figure.compared.pop();
            figure.orders = vec![Order {
                what: "modes".into(),
                places: vec![
                    Place::new("Global", None, 1.0),
                    Place::new("DDMem", None, 2.0),
                ],
            }];
        }));
    }

    #[test]
    fn a_share_off_by_more_than_a_hundredth_is_missed() {
        let [thirteen, fourteen] = [11, 12].map(|at| MEMORY_TIER[at]);
        let goals = met(&[share(thirteen, 0.611), share(fourteen, 0.595)]);
        assert_eq!(goals, [false, false, true]);
        // A missing row is not a correct share.
        let mut figures = all();
        figures[11].compared.pop();
        assert_eq!(met(&figures), [true, false, true]);
    }
}
