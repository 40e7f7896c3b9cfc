// SPDX-License-Identifier: GPL-2.0-only

//! The papers' figures and tables, replayed at their sizes.
//!
//! Each group of experiments has a file, and [`report`] writes the page and the result.

pub mod cooperative;
pub mod dynamic;
pub mod flexible;
pub mod hybrid;
pub mod modes;
pub mod motivation;
pub mod record;
pub mod report;
pub mod unicache;

use crate::goal::JUDGED;
use crate::verdict::{Band, Order};
use ddreport::chart::{Bar, Bars, Line, Lines};
use ddreport::gain;

/// A figure or a table of a paper.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Identification, such as `DoubleDecker, figure 9`.
    pub name: &'static str,
    /// Title.
    pub title: &'static str,
    /// Its charts and gaps.
    pub parts: Vec<Part>,
    /// Our numbers beside the paper's.
    pub compared: Vec<Compared>,
    /// Sequences that have an order in the paper.
    pub orders: Vec<Order>,
    /// Notes on the run, and on details that the paper does not give.
    pub note: String,
}

/// A part of a figure.
#[derive(Clone, Debug)]
pub enum Part {
    /// Values over time or size.
    Lines(Lines),
    /// A value for each of several items, beside the paper's.
    Bars(Bars),
    /// Not shown, for this reason.
    Missing(&'static str),
}

impl Part {
    fn lines(title: impl Into<String>, x: &'static str, y: &'static str, lines: Vec<Line>) -> Self {
        Self::Lines(Lines {
            title: title.into(),
            x,
            y,
            lines,
        })
    }

    /// Returns what containers hold in the store, over time.
    fn held(title: impl Into<String>, lines: Vec<Line>) -> Self {
        Self::lines(title, "seconds", "MiB in the store", lines)
    }

    fn bars(title: impl Into<String>, unit: &'static str, bars: Vec<Bar>) -> Self {
        Self::Bars(Bars {
            title: title.into(),
            unit,
            names: ["ours", "paper"],
            bars,
        })
    }
}

/// One of our numbers beside the paper's.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The quantity.
    pub what: String,
    /// Its unit.
    pub unit: &'static str,
    /// The paper's value, if it gives one.
    pub paper: Option<f64>,
    /// Our value.
    pub ours: f64,
    /// The criterion for our value.
    pub band: Band,
}

impl Compared {
    /// Returns a number that is not judged.
    pub fn new(
        what: impl Into<String>,
        unit: &'static str,
        paper: impl Into<Option<f64>>,
        ours: f64,
    ) -> Self {
        Self {
            what: what.into(),
            unit,
            paper: paper.into(),
            ours,
            band: Band::Shown,
        }
    }

    /// Returns the same, judged by this criterion.
    #[must_use]
    pub const fn within(mut self, band: Band) -> Self {
        self.band = band;
        self
    }

    /// Returns whether our value meets the criterion, or `None` if it is not judged.
    pub fn holds(&self) -> Option<bool> {
        if self.band == Band::Shown {
            return None;
        }
        let ours = self.ours;
        let holds = self.paper.is_some_and(|paper| match self.band {
            Band::Shown => true,
            Band::Times(factor) => ours <= paper * factor && ours >= paper / factor,
            Band::Gain => gain::agrees(paper, ours),
            Band::Within(limit) => (ours - paper).abs() <= limit,
            Band::AtMost => ours <= paper,
            Band::AtLeast => ours >= paper,
        });
        Some(holds)
    }

    /// Returns our value divided by the paper's.
    pub fn ratio(&self) -> Option<f64> {
        self.paper
            .filter(|paper| *paper != 0.0)
            .map(|paper| self.ours / paper)
    }
}

/// A group of experiments.
type Group = fn() -> Vec<Figure>;

/// The longest comes first, so that no thread is left alone with one at the end.
const GROUPS: [(&str, Group); 8] = [
    ("cooperative", cooperative::figures),
    ("splits", motivation::splits),
    ("motivation", motivation::figures),
    ("flexible", flexible::figures),
    ("modes", modes::figures),
    ("dynamic", dynamic::figures),
    ("unicache", unicache::figures),
    ("hybrid", hybrid::figures),
];

/// Returns the names of the groups.
pub fn groups() -> [&'static str; 8] {
    GROUPS.map(|(name, _)| name)
}

/// Runs one group. Returns no figures for an unknown name.
pub fn group(name: &str) -> Vec<Figure> {
    let group = GROUPS.iter().find(|(one, _)| *one == name);
    group.map_or(Vec::new(), |(_, run)| run())
}

/// Runs all experiments, on as many threads as there are processors.
pub fn all() -> Vec<Figure> {
    let mut all = ddsim::parallel::map(&GROUPS, |(_, run)| run()).concat();
    let order = JUDGED.iter().map(|one| &one.name).chain(&BESIDE);
    all.sort_by_key(|figure| order.clone().position(|name| *name == figure.name));
    all
}

/// Figures after those that are judged.
const BESIDE: [&str; 3] = [
    "UniCache, figure 6",
    "UniCache, figure 7",
    "UniCache, table I",
];
