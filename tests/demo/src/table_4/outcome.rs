// SPDX-License-Identifier: GPL-2.0

//! What came of it: a table, `result.json` and `report.html`.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use comfy_table::{CellAlignment, Table, presets};
use ddlab::{Target, report};
use maud::{Markup, html};
use serde::Serialize;

use super::stand::CAPACITY_MIB;
use crate::{
    chart::{GREY, Ladder, Rung, colour},
    report::{page, promises},
};

/// The part of what a service reaches on fast disks that it shall reach on slow ones.
pub(super) const PART: f64 = 0.75;

/// A service in a configuration.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    pub(super) service: &'static str,
    pub(super) answers_per_s: f64,
    /// MiB of the guest's memory.
    pub(super) memory_mib: f64,
    /// MiB of the tier.
    pub(super) cache_mib: f64,
    pub(super) weight: u32,
}

/// A configuration and its services' figures.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Configuration {
    name: String,
    figures: Vec<Figure>,
}

impl Configuration {
    pub(super) const fn new(name: String, figures: Vec<Figure>) -> Self {
        Self { name, figures }
    }

    /// What each service reaches of its target.
    fn parts(&self, targets: &[f64]) -> Vec<f64> {
        let rates = self.figures.iter().map(|figure| figure.answers_per_s);
        rates
            .zip(targets)
            .map(|(rate, target)| rate / target)
            .collect()
    }

    fn met(&self, targets: &[f64]) -> usize {
        self.parts(targets)
            .iter()
            .filter(|part| **part >= 1.0)
            .count()
    }

    /// What makes one configuration better than another: targets met, then all answers together
    /// (the paper's measure), each service's beside its target.
    fn worth(&self, targets: &[f64]) -> (usize, f64) {
        (self.met(targets), self.parts(targets).iter().sum())
    }
}

/// All figures.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// MiB that each container has where limits are equal.
    pub(super) limit_mib: u64,
    pub(super) services: Vec<&'static str>,
    /// Answers a second on fast disks.
    pub(super) most: Vec<f64>,
    /// Answers a second that are promised.
    pub(super) targets: Vec<f64>,
    /// policyd's is the last.
    pub(super) configurations: Vec<Configuration>,
    /// Whether policyd itself found all targets met.
    pub(super) found_met: bool,
    /// What it says about them.
    pub(super) explained: String,
}

impl Outcome {
    fn policyd(&self) -> Option<&Configuration> {
        self.configurations.last()
    }

    /// The best of those the host alone decides.
    fn best(&self) -> Option<&Configuration> {
        let (_, others) = self.configurations.split_last()?;
        others.iter().max_by(|one, other| {
            let (one, other) = (one.worth(&self.targets), other.worth(&self.targets));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        })
    }

    /// The goals and what came of them.
    pub(super) fn promises(&self) -> Vec<Target> {
        let mut promises = Vec::new();
        if let Some(best) = self.best() {
            let all = self.targets.len();
            let met = best.met(&self.targets);
            promises.push(Target::new(
                format!(
                    "table 4: targets met by the best host-only partition ({})",
                    best.name
                ),
                format!("fewer than {all}"),
                met.to_string(),
                met < all,
            ));
        }
        promises.push(Target::new(
            "table 4: policyd finds all targets met",
            "yes",
            if self.found_met { "yes" } else { "no" },
            self.found_met,
        ));
        if let Some(policyd) = self.policyd() {
            let parts = policyd.parts(&self.targets);
            promises.extend(policyd.figures.iter().zip(parts).map(|(figure, part)| {
                let name = format!("table 4: {} with policyd, of its target", figure.service);
                Target::at_least(name, 100.0, part * 100.0, "%")
            }));
        }
        promises
    }

    /// The paper's table, for a terminal.
    pub(super) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(HEAD);
        for row in self.rows() {
            table.add_row(row);
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let lines: Vec<String> = table.lines().collect();
        lines.join("\n")
    }

    /// Each service's target, then its figures in all configurations.
    fn rows(&self) -> Vec<[String; 6]> {
        let mut rows = Vec::new();
        for (at, target) in self.targets.iter().enumerate() {
            for one in &self.configurations {
                let Some(figure) = one.figures.get(at) else {
                    continue;
                };
                rows.push([
                    format!("{} ({target:.1}/s)", figure.service),
                    one.name.clone(),
                    format!("{:.1}", figure.answers_per_s),
                    format!("{:.0}", figure.answers_per_s * 100.0 / target),
                    format!("{:.0}", figure.memory_mib),
                    format!("{:.0}", figure.cache_mib),
                ]);
            }
        }
        rows
    }

    /// Writes `result.json` and `report.html`.
    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        report::write_json(&dir.join("result.json"), self)?;
        let path = dir.join("report.html");
        fs::write(&path, page(TITLE, &self.body()).into_string())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn body(&self) -> Markup {
        html! {
            h1 { (TITLE) }
            p {
                "Four services in one guest, each in a container, with a client that asks at a "
                "steady pace. A target is " (PART * 100.0) " % of what the service answers "
                "beside the others on disks that cost nothing. Then readers' disks and swap are "
                "slow. The host alone: limits of guest memory are equal, " (self.limit_mib)
                " MiB each, and a tier of " (CAPACITY_MIB) " MiB is divided in several ways "
                "between those who read files. policyd: it has the targets, and moves guest "
                "memory and weights."
            }
            ul { @for service in &self.services { li { (service) } } }
            (self.ladder().svg())
            div.scroll {
                table {
                    thead { tr { @for head in HEAD { th { (head) } } } }
                    tbody {
                        @for row in self.rows() {
                            tr { @for cell in row { td.figure { (cell) } } }
                        }
                    }
                }
            }
            h2 { "Goals" }
            (promises(&self.promises()))
            h2 { "What policyd says" }
            pre { (self.explained) }
        }
    }

    /// Each service's part of its target: the host's best, and policyd's.
    fn ladder(&self) -> Ladder {
        let pair: Vec<_> = [(self.best(), GREY), (self.policyd(), colour(0))]
            .into_iter()
            .filter_map(|(one, colour)| Some((one?, colour)))
            .collect();
        let parts: Vec<_> = pair
            .iter()
            .map(|(one, _)| one.parts(&self.targets))
            .collect();
        let row = |(at, figure): (usize, &Figure)| Rung {
            name: figure.service.to_owned(),
            factors: parts.iter().map(|parts| parts.get(at).copied()).collect(),
        };
        let figures = pair.first().map_or(&[][..], |(one, _)| &one.figures);
        Ladder {
            about: "What each service reaches of its target".to_owned(),
            axis: "answers, compared with the target".to_owned(),
            situations: pair
                .iter()
                .map(|(one, colour)| (one.name.clone(), *colour))
                .collect(),
            rows: figures.iter().enumerate().map(row).collect(),
        }
    }
}

const TITLE: &str = "Table 4: targets of four services in one guest";

/// Columns of the table.
const HEAD: [&str; 6] = [
    "service (target)",
    "who decides",
    "answers/s",
    "of target %",
    "memory MiB",
    "tier MiB",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(name: &str, rates: [f64; 2]) -> Configuration {
        let figures = [("redis", rates[0]), ("web", rates[1])];
        let figure = |(service, answers_per_s)| Figure {
            service,
            answers_per_s,
            memory_mib: 64.0,
            cache_mib: 8.0,
            weight: 50,
        };
        Configuration::new(name.to_owned(), figures.map(figure).into())
    }

    fn outcome() -> Outcome {
        Outcome {
            limit_mib: 64,
            services: vec!["Redis", "nginx"],
            most: vec![40.0, 20.0],
            targets: vec![30.0, 15.0],
            configurations: vec![
                configuration("host alone, 25:75", [3.0, 14.0]),
                configuration("host alone, 50:50", [3.0, 15.5]),
                configuration("host alone, 75:25", [3.0, 15.0]),
                configuration("policyd", [36.0, 16.0]),
            ],
            found_met: true,
            explained: "redis: met".to_owned(),
        }
    }

    #[test]
    fn the_best_partition_meets_most_then_answers_most() {
        let outcome = outcome();
        assert_eq!(outcome.best().unwrap().name, "host alone, 50:50");
        let promises = outcome.promises();
        assert!(promises.iter().all(|promise| promise.met), "{promises:?}");
        assert_eq!(promises.len(), 4);
    }

    #[test]
    fn a_partition_that_meets_all_breaks_the_promise() {
        let mut outcome = outcome();
        outcome.configurations[0] = configuration("host alone, 25:75", [30.0, 15.0]);
        assert!(!outcome.promises()[0].met);
        outcome.configurations[3] = configuration("policyd", [29.0, 15.0]);
        assert!(!outcome.promises()[2].met && outcome.promises()[3].met);
    }

    #[test]
    fn the_report_has_everything_in_it() {
        let dir = tempfile::tempdir().unwrap();
        outcome().write(dir.path()).unwrap();
        let text = fs::read_to_string(dir.path().join("report.html")).unwrap();
        assert_eq!(text.matches("<circle").count(), 2 + 4);
        assert!(text.contains("redis: met") && !text.contains("NaN"));
        let text = fs::read_to_string(dir.path().join("result.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            json["configurations"][3]["figures"][0]["answers_per_s"],
            36.0
        );
    }
}
