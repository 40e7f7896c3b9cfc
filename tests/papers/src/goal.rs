// SPDX-License-Identifier: GPL-2.0-only

//! The promises about the figures.

use crate::figure::Figure;
use crate::verdict::{Band, Judgement, Verdict, judge};
use ddsim::goal::Goal;
use std::cmp::Ordering;

/// The declared result of a figure. A run must come to the same result.
#[derive(Clone, Copy, Debug)]
pub struct Declared {
    /// Its name.
    pub name: &'static str,
    /// Number of its judged numbers and orders.
    pub judged: usize,
    /// Number of these that are not as in the paper.
    pub off: usize,
}

impl Declared {
    /// Returns its verdict.
    pub const fn verdict(&self) -> Verdict {
        Verdict::of(self.judged, self.off)
    }

    /// Compares a run with this. Less is worse; and so is a figure that is absent, and one of which
    /// other numbers are judged than declared.
    fn compare(&self, run: Option<&Judgement>) -> Ordering {
        match run {
            Some(run) if run.judged == self.judged => self.off.cmp(&run.off.len()),
            _ => Ordering::Less,
        }
    }
}

const fn declared(name: &'static str, judged: usize, off: usize) -> Declared {
    Declared { name, judged, off }
}

/// The judged figures and tables of the papers in the order of the page, without those that only
/// describe a setup. `docs/developers/papers.md` describes what is not as in the papers; a unit
/// test compares its verdicts with these.
pub const JUDGED: [Declared; 14] = [
    declared("DoubleDecker, figure 3", 2, 0),
    declared("DoubleDecker, figure 4", 4, 0),
    declared("DoubleDecker, figure 5", 8, 0),
    declared("DoubleDecker, table 1", 10, 0),
    declared("DoubleDecker, figure 9", 5, 0),
    declared("DoubleDecker, figure 10", 4, 0),
    declared("DoubleDecker, table 2", 20, 6),
    declared("DoubleDecker, figure 11", 15, 5),
    declared("DoubleDecker, figure 12", 9, 0),
    declared("DoubleDecker, table 4", 13, 7),
    declared("Thesis, figure 5.6", 5, 2),
    declared("Thesis, figure 5.7", 3, 0),
    declared("DoubleDecker, figure 13", 8, 0),
    declared("DoubleDecker, figure 14", 7, 0),
];

/// Fraction of these that should be reproduced.
const REPRODUCED: f64 = 0.9;

/// Maximum deviation of a share from that of its weight, as a fraction of the store.
pub const OFF: Band = Band::Within(PART);
const PART: f64 = 0.01;

/// The figures about shares, which must follow the weights.
const SHARES: [&str; 2] = ["DoubleDecker, figure 13", "DoubleDecker, figure 14"];

/// Returns the figure of this name, if as much of it is judged as is declared.
fn find<'a>(figures: &'a [Figure], wanted: &str) -> Option<&'a Figure> {
    let declared = JUDGED.iter().find(|one| one.name == wanted)?;
    let figure = figures.iter().find(|figure| figure.name == wanted)?;
    (judge(figure).judged == declared.judged).then_some(figure)
}

/// Returns the promises: each figure comes out as it is declared, and shares follow the weights. A
/// figure that is absent, or of which less is judged than expected, is worse than declared and has
/// no share.
pub fn of_figures(figures: &[Figure]) -> Vec<Goal> {
    let mut goals = vec![
        as_declared(
            figures,
            "figures that are worse than declared",
            Ordering::Less,
        ),
        // Otherwise the list would hide it if they become worse again.
        as_declared(
            figures,
            "figures that are better than declared: update the list (tests/papers/src/goal.rs)",
            Ordering::Greater,
        ),
    ];
    goals.extend(SHARES.map(|name| {
        let rows = find(figures, name).map_or(&[][..], |figure| &figure.compared);
        let off = rows
            .iter()
            .map(|row| row.paper.map_or(1.0, |paper| (row.ours - paper).abs()));
        let off = off.reduce(f64::max).unwrap_or(1.0);
        let name = format!("{name}: part of the store by which a share is off");
        Goal::at_most(name, PART, off)
    }));
    goals
}

/// Returns the goal that no figure differs from its declaration in this direction.
fn as_declared(figures: &[Figure], name: &str, direction: Ordering) -> Goal {
    let differs = |declared: &&Declared| {
        let figure = figures.iter().find(|figure| figure.name == declared.name);
        declared.compare(figure.map(judge).as_ref()) == direction
    };
    let names = JUDGED.iter().filter(differs).map(|one| one.name);
    let names: Vec<&str> = names.collect();
    Goal {
        name: name.into(),
        target: "none".into(),
        measured: match names.is_empty() {
            true => "none".into(),
            false => names.join("; "),
        },
        met: names.is_empty(),
    }
}

/// Returns what the project aims at, and does not promise.
pub fn aim(figures: &[Figure]) -> Goal {
    let reproduced = |declared: &&Declared| {
        let figure = find(figures, declared.name);
        figure.is_some_and(|figure| judge(figure).verdict == Verdict::Reproduced)
    };
    let part = JUDGED.iter().filter(reproduced).count() as f64 / JUDGED.len() as f64;
    let name = "part of the papers' figures and tables that are reproduced";
    Goal::at_least(name, REPRODUCED, part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Compared;
    use crate::outcome::HEAD;
    use crate::verdict::{Order, Place};

    /// Returns a figure with the declared number of judged values, which are `ours` except for
    /// those that are declared as deviations.
    fn share(declared: Declared, ours: f64) -> Figure {
        let row = |ours| Compared::new("x", "of the store", 0.6, ours).within(OFF);
        let mut compared = vec![row(ours); declared.judged];
        compared[..declared.off].fill(row(0.9));
        Figure {
            name: declared.name,
            title: "",
            parts: Vec::new(),
            compared,
            orders: Vec::new(),
            note: String::new(),
        }
    }

    /// Returns all figures with the declared values.
    fn all() -> Vec<Figure> {
        JUDGED.map(|declared| share(declared, 0.605)).into()
    }

    fn met(figures: &[Figure]) -> Vec<bool> {
        of_figures(figures).iter().map(|goal| goal.met).collect()
    }

    #[test]
    fn absent_figures_are_missed() {
        assert_eq!(met(&[]), [false, true, false, false]);
        assert_eq!(met(&all()), [true; 4]);
        assert!(!met(&all()[1..])[0]);
    }

    /// Returns whether one of the first two goals is missed after a change of the first figure.
    fn changed(how: impl Fn(&mut Figure)) -> [bool; 2] {
        let mut figures = all();
        how(&mut figures[0]);
        let met = met(&figures);
        [!met[0], !met[1]]
    }

    #[test]
    fn figures_that_are_renamed_lost_or_reordered_are_worse() {
        assert_eq!(changed(|_| {}), [false, false]);
        let worse = |how: fn(&mut Figure)| assert_eq!(changed(how), [true, false]);
        worse(|figure| figure.name = "DoubleDecker, figure 3b");
        worse(|figure| drop(figure.compared.pop()));
        worse(|figure| figure.compared[0].band = Band::Shown);
        worse(|figure| figure.compared[0].ours = 0.62);
        worse(|figure| {
            figure.compared.pop();
            figure.orders = vec![Order {
                what: "modes".into(),
                places: vec![
                    Place::new("Global", None, 1.0),
                    Place::new("DDMem", None, 2.0),
                ],
            }];
        });
    }

    /// A figure that is declared as reproduced partly can be lost as well, and the declaration must
    /// not lag behind the figure.
    #[test]
    fn declared_deviations_are_neither_more_nor_fewer() {
        let partly = JUDGED.iter().position(|one| one.off > 0).unwrap();
        let with = |ours: f64, at: usize| {
            let mut figures = all();
            figures[partly].compared[at].ours = ours;
            of_figures(&figures)
        };
        let first_right = JUDGED[partly].off;
        let worse = with(0.9, first_right);
        assert!(!worse[0].met && worse[1].met);
        assert_eq!(worse[0].measured, JUDGED[partly].name);
        let better = with(0.6, 0);
        assert!(better[0].met && !better[1].met);
        assert_eq!(better[1].measured, JUDGED[partly].name);
    }

    /// A figure does not count as reproduced because its deviations are declared.
    #[test]
    fn the_aim_counts_reproduced_figures_alone() {
        let aim_of = |figures: &[Figure]| (aim(figures).measured, aim(figures).met);
        assert_eq!(aim_of(&all()), ("0.714".into(), false));
        let mut right = JUDGED.map(|one| share(Declared { off: 0, ..one }, 0.605));
        assert_eq!(aim_of(&right), ("1.000".into(), true));
        // Thirteen of fourteen suffice, and twelve do not.
        right[0].compared.pop();
        assert!(aim(&right).met);
        assert!(aim(&right[..13]).measured == "0.857" && !aim(&right[..13]).met);
    }

    /// The page and the list say the same.
    #[test]
    fn the_document_has_the_declared_verdicts() {
        let page = include_str!("../../../docs/developers/papers.md");
        assert!(page.starts_with(HEAD));
        for declared in JUDGED {
            let row = format!("| {} | {} | ", declared.name, declared.verdict().name());
            let deviations = page.lines().find_map(|line| line.strip_prefix(&row));
            let deviations =
                deviations.unwrap_or_else(|| panic!("docs/developers/papers.md has no {row}"));
            if declared.off > 0 {
                let count = deviations.split("; ").count();
                assert_eq!(count, declared.off, "{}", declared.name);
            }
        }
        let verdicts = JUDGED.iter().map(Declared::verdict);
        let reproduced = verdicts.filter(|one| *one == Verdict::Reproduced).count();
        let told = format!("{reproduced} of {} are.", JUDGED.len());
        assert!(
            page.contains(&told),
            "docs/developers/papers.md does not say {told}"
        );
    }

    #[test]
    fn a_share_off_by_more_than_a_hundredth_is_missed() {
        let [thirteen, fourteen] = [12, 13].map(|at| JUDGED[at]);
        let goals = met(&[share(thirteen, 0.611), share(fourteen, 0.595)]);
        assert_eq!(goals[2..], [false, true]);
        // A missing row is not a correct share.
        let mut figures = all();
        figures[12].compared.pop();
        assert_eq!(met(&figures), [false, true, false, true]);
    }
}
