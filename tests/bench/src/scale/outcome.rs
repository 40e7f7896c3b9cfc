// SPDX-License-Identifier: GPL-2.0-only

//! The report.

use comfy_table::{Cell, CellAlignment, Table, presets};
use ddlab::report::{Target, table};
use serde::Serialize;

use super::course::Sample;

/// Maximum factor by which an operation may cost more with all VMs than with one.
const GROWTH: f64 = 1.2;

/// Maximum time for which a lock may be held, in nanoseconds.
const LOCK_NS: f64 = 100_000.0;

/// An operation, and its cost in a sample.
type Operation = (&'static str, fn(&Sample) -> f64);

const OPERATIONS: [Operation; 6] = [
    ("put", |sample| sample.put_ns),
    ("get", |sample| sample.get_ns),
    ("growth", |sample| sample.growth_ns),
    ("statistics", |sample| sample.statistics_ns),
    ("weight", |sample| sample.weight_ns),
    ("death", |sample| sample.death_ns),
];

/// All results.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// Pages of the tier.
    pages: u64,
    pub(super) targets: Vec<Target>,
    /// All cases.
    samples: Vec<Sample>,
}

impl Outcome {
    pub(super) fn new(pages: u64, samples: Vec<Sample>) -> Self {
        Self {
            pages,
            targets: targets(&samples),
            samples,
        }
    }

    /// Returns both as tables for people.
    pub(super) fn summary(&self) -> String {
        let mut grid = Table::new();
        grid.load_style(presets::NOTHING);
        let names = OPERATIONS.map(|(name, _)| name);
        grid.set_header(["VMs", "pools"].into_iter().chain(names).chain(["lock"]));
        for sample in &self.samples {
            let mut row = vec![Cell::new(sample.size.vms), Cell::new(sample.size.pools)];
            let figures = OPERATIONS.map(|(_, figure)| format!("{:.0}", figure(sample)));
            let hold = &sample.longest_hold;
            for text in figures
                .into_iter()
                .chain([format!("{} {}", hold.lock, hold.ns)])
            {
                row.push(Cell::new(text).set_alignment(CellAlignment::Right));
            }
            grid.add_row(row);
        }
        format!(
            "ns of processor time, in a full tier of {} pages (put, get, growth, death: for a page; \
             lock: the longest hold)\n{grid}\n\n{}",
            self.pages,
            table(&self.targets)
        )
    }
}

/// Returns targets that compare each operation with the most VMs to the same with one, for each
/// number of pools.
fn targets(samples: &[Sample]) -> Vec<Target> {
    let mut targets = Vec::new();
    let numbers = samples.iter().map(|sample| sample.size.vms);
    let (Some(least), Some(most)) = (numbers.clone().min(), numbers.max()) else {
        return targets;
    };
    let find = |vms, pools| {
        let mut samples = samples.iter();
        samples.find(|sample| (sample.size.vms, sample.size.pools) == (vms, pools))
    };
    for few in samples.iter().filter(|sample| sample.size.vms == least) {
        let Some(many) = find(most, few.size.pools) else {
            continue;
        };
        for (name, figure) in OPERATIONS {
            targets.push(Target::at_most(
                format!("{name}, {} pools: {most} VMs by {least}", few.size.pools),
                GROWTH,
                figure(many) / figure(few),
                "",
            ));
        }
    }
    let longest = samples.iter().map(|sample| sample.longest_hold.ns).max();
    targets.push(Target::at_most(
        "longest time for which a lock was held",
        LOCK_NS / 1000.0,
        longest.map(|longest| longest as f64 / 1000.0),
        "us",
    ));
    targets
}
