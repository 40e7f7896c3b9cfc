// SPDX-License-Identifier: GPL-2.0-only

//! The results: a table, `result.json` and `report.html`.

use std::path::Path;

use anyhow::Result;
use ddlab::{Target, report};
use ddreport::{
    chart::{GREY, Ladder, Rung, colour},
    page::{Cell, table as cards},
};
use maud::{Markup, html};
use serde::Serialize;

use super::testbed::CAPACITY_MIB;
use crate::{
    report::{self as pages, page, promises},
    table,
};

/// The fraction of its clients' requests that a service must answer on slow disks.
pub(super) const PART: f64 = 0.75;

/// Figures of a service in a configuration.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figure {
    pub(super) service: &'static str,
    /// Median of the windows.
    pub(super) answers_per_s: f64,
    /// Value of the worst window.
    pub(super) worst_per_s: f64,
    /// MiB of the guest's memory.
    pub(super) memory_mib: f64,
    /// MiB of the tier.
    pub(super) cache_mib: f64,
    pub(super) weight: u32,
}

/// The authority that divides guest memory and tier.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Who {
    /// The tier is partitioned; limits of guest memory are equal, or there are none.
    Host,
    /// An administrator sets limits by what the services hold, and partitions the tier.
    Hand,
    Policyd,
}

/// A configuration with the figures of its services.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Configuration {
    who: Who,
    name: String,
    figures: Vec<Figure>,
}

impl Configuration {
    pub(super) const fn new(who: Who, name: String, figures: Vec<Figure>) -> Self {
        Self { who, name, figures }
    }

    /// Returns each service's fraction of its target.
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

    /// Returns the rank of a configuration: the number of targets met, then all answers together
    /// (the paper's measure), each service's relative to its target.
    fn worth(&self, targets: &[f64]) -> (usize, f64) {
        (self.met(targets), self.parts(targets).iter().sum())
    }
}

/// All figures.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// MiB of each container where limits are equal.
    pub(super) limit_mib: u64,
    pub(super) services: Vec<&'static str>,
    /// Figures on fast disks, without limits.
    pub(super) most: Vec<Figure>,
    /// Promised answers a second.
    pub(super) targets: Vec<f64>,
    /// All configurations on slow disks.
    pub(super) configurations: Vec<Configuration>,
    /// Whether policyd itself found all targets met.
    pub(super) found_met: bool,
    /// policyd's report about them.
    pub(super) explained: String,
}

impl Outcome {
    /// Returns the best of the configurations of an authority.
    fn best(&self, who: Who) -> Option<&Configuration> {
        let all = self.configurations.iter();
        all.filter(|one| one.who == who).max_by(|one, other| {
            let (one, other) = (one.worth(&self.targets), other.worth(&self.targets));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        })
    }

    /// Returns the goals and their results.
    pub(super) fn promises(&self) -> Vec<Target> {
        let all = self.targets.len();
        let met = |who| self.best(who).map(|one| one.met(&self.targets));
        let count =
            |met: Option<usize>| met.map_or("not measured".to_owned(), |met| met.to_string());
        let (host, hand, policyd) = (met(Who::Host), met(Who::Hand), met(Who::Policyd));
        let mut promises = vec![
            Target::new(
                "table 4: targets met by the best host-only partition",
                format!("fewer than {all}"),
                count(host),
                host.is_some_and(|met| met < all),
            ),
            Target::new(
                "table 4: policyd finds all targets met",
                "yes",
                if self.found_met { "yes" } else { "no" },
                self.found_met,
            ),
            Target::new(
                "table 4: targets met with policyd",
                format!("as many as with limits by hand ({})", count(hand)),
                count(policyd),
                hand.is_some() && policyd >= hand,
            ),
        ];
        let parts = self
            .best(Who::Policyd)
            .map_or(Vec::new(), |policyd| policyd.parts(&self.targets));
        for (at, service) in self.most.iter().enumerate() {
            let name = format!("table 4: {} with policyd, of its target", service.service);
            let part = parts.get(at).copied().unwrap_or(0.0);
            promises.push(Target::at_least(name, 100.0, part * 100.0, "%"));
        }
        promises
    }

    /// Returns the paper's table for a terminal.
    pub(super) fn table(&self) -> String {
        table::lines(HEAD, self.rows(), 2).join("\n")
    }

    /// Returns each service's target, then its figures in all configurations.
    fn rows(&self) -> Vec<[String; 7]> {
        let row = |at: usize, name: &str, figures: &[Figure]| {
            let (target, figure) = (self.targets.get(at)?, figures.get(at)?);
            Some([
                format!("{} ({target:.1}/s)", figure.service),
                name.to_owned(),
                format!("{:.1}", figure.answers_per_s),
                format!("{:.1}", figure.worst_per_s),
                format!("{:.0}", figure.answers_per_s * 100.0 / target),
                format!("{:.0}", figure.memory_mib),
                format!("{:.0}", figure.cache_mib),
            ])
        };
        let of = |at| {
            let fast = std::iter::once(row(at, "disks that cost nothing", &self.most));
            let slow = self.configurations.iter();
            fast.chain(slow.map(move |one| row(at, &one.name, &one.figures)))
        };
        (0..self.targets.len()).flat_map(of).flatten().collect()
    }

    /// Writes `result.json` and `report.html`.
    pub(super) fn write(&self, dir: &Path) -> Result<()> {
        report::write_json(&dir.join("result.json"), self)?;
        pages::write(dir, &page(TITLE, &self.body()))
    }

    fn body(&self) -> Markup {
        html! {
            h1 { (TITLE) }
            p {
                "Four services in one guest, each in a container, with a client. A target is "
                (PART * 100.0) " % of the steady rate at which clients ask while policyd adapts. "
                "Figures are those of clients that ask again as soon as they are answered, in three "
                "windows for each configuration, a fixed time after all data of the services was "
                "touched. Readers' disks and swap are slow. The host alone: a tier of " (CAPACITY_MIB)
                " MiB is divided in several ways between the services that read files, and guest "
                "memory by the guest's kernel, or by equal limits of " (self.limit_mib) " MiB. By "
                "hand: Redis and MariaDB may keep the memory that they hold, and the other services "
                "share the remainder. policyd: it has the targets, and moves guest memory and "
                "weights. The same at the paper's sizes is simulated (cargo xtask figures)."
            }
            ul { @for service in &self.services { li { (service) } } }
            figure { (self.ladder().svg()) }
            (cards(&HEAD, self.rows().into_iter().map(|row| row.into_iter().map(Cell::number))))
            h2 { "Goals" }
            (promises(&self.promises()))
            h2 { "policyd's report" }
            pre { (self.explained) }
        }
    }

    /// Returns each service's fraction of its target: the host's best, the best by hand, and
    /// policyd's.
    fn ladder(&self) -> Ladder {
        let best: Vec<_> = [
            (self.best(Who::Host), GREY),
            (self.best(Who::Hand), colour(1)),
            (self.best(Who::Policyd), colour(0)),
        ]
        .into_iter()
        .filter_map(|(one, colour)| Some((one?, colour)))
        .collect();
        let parts: Vec<_> = best
            .iter()
            .map(|(one, _)| one.parts(&self.targets))
            .collect();
        let row = |(at, figure): (usize, &Figure)| Rung {
            name: figure.service.to_owned(),
            factors: parts.iter().map(|parts| parts.get(at).copied()).collect(),
        };
        let figures = best.first().map_or(&[][..], |(one, _)| &one.figures);
        Ladder {
            about: "What each service reaches of its target".to_owned(),
            axis: "answers, compared with the target".to_owned(),
            situations: best
                .iter()
                .map(|(one, colour)| (one.name.clone(), *colour))
                .collect(),
            rows: figures.iter().enumerate().map(row).collect(),
        }
    }
}

const TITLE: &str = "Table 4: targets of four services in one guest";

/// Columns of the table.
const HEAD: [&str; 7] = [
    "service (target)",
    "who decides",
    "answers/s",
    "worst window",
    "of target %",
    "memory MiB",
    "tier MiB",
];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn figures(rates: [f64; 2]) -> Vec<Figure> {
        let figure = |(service, answers_per_s)| Figure {
            service,
            answers_per_s,
            worst_per_s: answers_per_s / 2.0,
            memory_mib: 64.0,
            cache_mib: 8.0,
            weight: 50,
        };
        [("redis", rates[0]), ("web", rates[1])].map(figure).into()
    }

    fn configuration(who: Who, name: &str, rates: [f64; 2]) -> Configuration {
        Configuration::new(who, name.to_owned(), figures(rates))
    }

    fn outcome() -> Outcome {
        Outcome {
            limit_mib: 64,
            services: vec!["Redis", "nginx"],
            most: figures([40.0, 20.0]),
            targets: vec![30.0, 15.0],
            configurations: vec![
                configuration(Who::Host, "host alone, 25:75", [3.0, 14.0]),
                configuration(Who::Host, "host alone, 50:50", [3.0, 15.5]),
                configuration(Who::Host, "host alone, 75:25", [3.0, 15.0]),
                configuration(Who::Hand, "limits by hand, 50:50", [36.0, 15.0]),
                configuration(Who::Policyd, "policyd", [36.0, 16.0]),
            ],
            found_met: true,
            explained: "redis: met".to_owned(),
        }
    }

    #[test]
    fn the_best_partition_meets_most_then_answers_most() {
        let outcome = outcome();
        assert_eq!(outcome.best(Who::Host).unwrap().name, "host alone, 50:50");
        let promises = outcome.promises();
        assert!(promises.iter().all(|promise| promise.met), "{promises:?}");
        assert_eq!(promises.len(), 5);
    }

    #[test]
    fn a_partition_that_meets_all_breaks_the_promise() {
        let mut outcome = outcome();
        outcome.configurations[0] = configuration(Who::Host, "host alone, 25:75", [30.0, 15.0]);
        assert!(!outcome.promises()[0].met);
        outcome.configurations[4] = configuration(Who::Policyd, "policyd", [29.0, 15.0]);
        let met: Vec<_> = outcome.promises().iter().map(|one| one.met).collect();
        assert_eq!(met, [false, true, false, false, true]);
    }

    #[test]
    fn absent_figures_miss_their_targets() {
        let mut outcome = outcome();
        outcome.configurations.clear();
        let met: Vec<_> = outcome.promises().iter().map(|one| one.met).collect();
        assert_eq!(met, [false, true, false, false, false]);
    }

    #[test]
    fn the_report_has_everything_in_it() {
        let dir = tempfile::tempdir().unwrap();
        outcome().write(dir.path()).unwrap();
        let text = fs::read_to_string(dir.path().join("report.html")).unwrap();
        assert_eq!(text.matches("<circle").count(), 3 + 6);
        assert!(text.contains("redis: met") && !text.contains("NaN"));
        let text = fs::read_to_string(dir.path().join("result.json")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            json["configurations"][4]["figures"][0]["answers_per_s"],
            36.0
        );
    }
}
