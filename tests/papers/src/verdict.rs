// SPDX-License-Identifier: GPL-2.0-only

//! The verdict whether a figure agrees with its paper.

use crate::figure::{Compared, Figure};
use ddreport::gain;
use serde::Serialize;
use std::cmp::Ordering::Equal;

/// The criterion for one of our numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Band {
    /// It is shown and not judged.
    #[default]
    Shown,
    /// It must be the paper's within this factor.
    Times(f64),
    /// It is a gain, which must agree with the paper's in direction and size ([`gain::agrees`]).
    Gain,
    /// It must differ from the paper's by at most this.
    Within(f64),
    /// It must be at most the paper's.
    AtMost,
    /// It must be at least the paper's.
    AtLeast,
}

/// The factor within which throughputs, latencies and sizes must agree with the paper's.
pub const TWICE: Band = Band::Times(gain::FACTOR);

/// An order of items in the paper, the largest first.
#[derive(Clone, Debug)]
pub struct Order {
    /// The compared quantity.
    pub what: String,
    /// The items in the paper's order.
    pub places: Vec<Place>,
}

/// An item of an order.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Its number in the paper, if the paper gives one and not only the order.
    pub paper: Option<f64>,
    /// Our number.
    pub ours: f64,
}

impl Place {
    /// Returns an item whose number is only compared with that of the others.
    pub fn new(name: impl Into<String>, paper: impl Into<Option<f64>>, ours: f64) -> Self {
        Self {
            name: name.into(),
            paper: paper.into(),
            ours,
        }
    }
}

/// Fraction by which two numbers may differ and be the same.
const TIE: f64 = 0.03;

impl Order {
    /// Returns the order of items that all have a number in the paper.
    pub fn by_paper(what: impl Into<String>, places: impl Into<Vec<Place>>) -> Self {
        let mut places = places.into();
        places.sort_by(|one, other| other.paper.partial_cmp(&one.paper).unwrap_or(Equal));
        Self {
            what: what.into(),
            places,
        }
    }

    /// Returns whether our numbers have the paper's order. Each must be ahead of all that follow it
    /// by more than a tie; where the paper's two differ only marginally, a tie is as good, and
    /// where they are equal, the paper gives no order.
    pub fn holds(&self) -> bool {
        let mut pairs = self.places.iter().enumerate().flat_map(|(at, first)| {
            let behind = self.places[at + 1..].iter();
            behind.map(move |second| (first, second))
        });
        pairs.all(|(first, second)| match first.paper.zip(second.paper) {
            Some((one, other)) if one == other => true,
            Some((one, other)) if one <= other * (1.0 + gain::MARGINAL) => {
                first.ours >= second.ours * (1.0 - TIE)
            }
            _ => first.ours > second.ours * (1.0 + TIE),
        })
    }
}

/// Verdict on a figure.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All judged values agree with the paper.
    Reproduced,
    /// At least half of them do.
    Partly,
    /// Less than half of them do.
    Not,
    /// The result is shown and not judged.
    Shown,
}

impl Verdict {
    /// Returns the verdict on a figure of which so many values and orders are judged, and so many
    /// of these deviate from the paper.
    pub const fn of(judged: usize, off: usize) -> Self {
        match (judged, off) {
            (0, _) => Self::Shown,
            (_, 0) => Self::Reproduced,
            (all, off) if 2 * off <= all => Self::Partly,
            _ => Self::Not,
        }
    }

    /// Returns its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Partly => "partly",
            Self::Not => "not",
            Self::Shown => "not judged",
        }
    }
}

/// A verdict with its reasons.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Number of judged values and orders.
    pub judged: usize,
    /// The deviations.
    pub off: Vec<String>,
}

/// Judges a figure by its bands and orders.
pub fn judge(figure: &Figure) -> Judgement {
    let rows = figure.compared.iter().filter_map(|row| {
        let holds = row.holds()?;
        Some((holds, told(row)))
    });
    let orders = figure.orders.iter().map(|order| {
        let places = order.places.iter();
        let ours = places.map(|place| format!("{} {:.2}", place.name, place.ours));
        let ours: Vec<String> = ours.collect();
        let told = format!("order of {}: {}", order.what, ours.join(", "));
        (order.holds(), told)
    });
    let all: Vec<(bool, String)> = rows.chain(orders).collect();
    let judged = all.len();
    let off: Vec<String> = all
        .into_iter()
        .filter(|(holds, _)| !holds)
        .map(|(_, told)| told)
        .collect();
    Judgement {
        verdict: Verdict::of(judged, off.len()),
        judged,
        off,
    }
}

/// Returns a row with the paper's value, for people.
pub(crate) fn told(row: &Compared) -> String {
    let number = crate::figure::report::number;
    let paper = row.paper.map_or("–".into(), number);
    let ours = number(row.ours);
    format!("{}: {ours} {} (paper {paper})", row.what, row.unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(paper: f64, ours: f64, band: Band) -> Compared {
        Compared::new("x", "MiB", paper, ours).within(band)
    }

    fn figure(compared: Vec<Compared>, ours: &[f64]) -> Figure {
        let places = ours.iter().map(|is| Place::new("a", None, *is)).collect();
        Figure {
            name: "DoubleDecker, figure 3",
            title: "",
            parts: Vec::new(),
            compared,
            orders: vec![Order {
                what: "x".into(),
                places,
            }],
            note: String::new(),
        }
    }

    #[test]
    fn bands_have_two_ends() {
        let holds = |paper, ours, band| row(paper, ours, band).holds();
        assert_eq!(holds(6.6, 3.4, TWICE), Some(true));
        assert_eq!(holds(6.6, 13.1, TWICE), Some(true));
        assert_eq!(holds(6.6, 3.2, TWICE), Some(false));
        assert_eq!(holds(6.6, 13.3, TWICE), Some(false));
        assert_eq!(holds(0.6, 0.609, Band::Within(0.01)), Some(true));
        assert_eq!(holds(0.6, 0.58, Band::Within(0.01)), Some(false));
        assert_eq!(holds(400.0, 400.0, Band::AtMost), Some(true));
        assert_eq!(holds(400.0, 401.0, Band::AtMost), Some(false));
        assert_eq!(holds(400.0, 401.0, Band::AtLeast), Some(true));
        assert_eq!(holds(400.0, 399.0, Band::AtLeast), Some(false));
        assert_eq!(holds(400.0, 1.0, Band::Shown), None);
        // A value without a counterpart in the paper does not meet the criterion.
        let none = Compared::new("x", "MiB", None, 1.0).within(TWICE);
        assert_eq!(none.holds(), Some(false));
        assert_eq!(holds(1.0, f64::NAN, TWICE), Some(false));
    }

    /// The direction is part of the criterion of a gain, and not of that of a size.
    #[test]
    fn gains_have_a_direction() {
        let holds = |paper, ours, band| row(paper, ours, band).holds();
        assert_eq!(holds(2.0, 1.0, TWICE), Some(true));
        assert_eq!(holds(2.0, 1.0, Band::Gain), Some(false));
        assert_eq!(holds(0.75, 1.17, Band::Gain), Some(false));
        assert_eq!(holds(2.0, 1.9, Band::Gain), Some(true));
        let none = Compared::new("x", "times", None, 1.0).within(Band::Gain);
        assert_eq!(none.holds(), Some(false));
    }

    #[test]
    fn a_tie_is_no_order() {
        let holds = |papers: [Option<f64>; 2], ours: [f64; 2]| {
            let places = papers.into_iter().zip(ours);
            let places = places.map(|(paper, ours)| Place::new("a", paper, ours));
            let places = places.collect();
            Order {
                what: "x".into(),
                places,
            }
            .holds()
        };
        // Without effect, or reversed.
        assert!(!holds([None; 2], [1.0, 1.0]) && !holds([None; 2], [1.0, 2.0]));
        assert!(!holds([None; 2], [1.02, 1.0]) && holds([None; 2], [1.04, 1.0]));
        assert!(!holds([None; 2], [0.0, 0.0]) && !holds([None; 2], [f64::NAN, 1.0]));
        // What is clearly apart in the paper must be apart, and what is not may not be reversed.
        let apart = [Some(2.0), Some(1.0)];
        assert!(!holds(apart, [1.0, 1.0]) && holds(apart, [1.04, 1.0]));
        let sorted = Order::by_paper(
            "x",
            [
                Place::new("Global", 1.0, 0.0),
                Place::new("DDMem", 2.0, 0.0),
            ],
        );
        assert_eq!(sorted.places[0].name, "DDMem");
        let equal = [Some(11.0), Some(11.0)];
        assert!(holds(equal, [1.0, 2.0]) && holds(equal, [2.0, 1.0]));
        let close = [Some(11.0), Some(10.0)];
        assert!(holds(close, [1.0, 1.0]) && holds(close, [0.98, 1.0]));
        assert!(!holds(close, [0.96, 1.0]));
    }

    /// Equal places in between do not hide that the first is behind the last.
    #[test]
    fn each_place_is_ahead_of_all_that_follow() {
        let order = |ours: [f64; 3]| {
            let places = [3.0, 3.0, 1.0].into_iter().zip(ours);
            let places = places.map(|(paper, ours)| Place::new("a", paper, ours));
            Order::by_paper("x", places.collect::<Vec<_>>()).holds()
        };
        assert!(order([2.0, 3.0, 1.0]) && order([3.0, 2.0, 1.0]));
        assert!(!order([1.0, 3.0, 2.0]) && !order([3.0, 1.0, 2.0]));
    }

    #[test]
    fn the_worst_number_decides() {
        let good = || row(1.0, 1.0, TWICE);
        let bad = || row(1.0, 3.0, TWICE);
        let verdict = |figure: &Figure| judge(figure).verdict;
        let reproduced = figure(vec![good()], &[2.0, 1.0]);
        assert_eq!(verdict(&reproduced), Verdict::Reproduced);
        let partly = figure(vec![good(), bad()], &[2.0, 1.0]);
        assert_eq!(verdict(&partly), Verdict::Partly);
        assert_eq!(judge(&partly).off, ["x: 3.00 MiB (paper 1.00)"]);
        let not = figure(vec![bad()], &[1.0, 2.0]);
        assert_eq!(verdict(&not), Verdict::Not);
        assert_eq!(judge(&not).off[1], "order of x: a 1.00, a 2.00");
        let mut shown = figure(vec![row(1.0, 3.0, Band::Shown)], &[]);
        shown.orders.clear();
        assert_eq!(verdict(&shown), Verdict::Shown);
    }
}
