// SPDX-License-Identifier: GPL-2.0-only

//! The report.

use comfy_table::{Cell, CellAlignment, Table, presets};
use ddlab::report::{Target, table};
use serde::Serialize;

use crate::{contest::SIZES, measure::Sample, mix::Mix};

/// All results.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) targets: Vec<Target>,
    /// Nanoseconds to choose a victim among 1000 VMs and 100 pools.
    pub(crate) victim_ns: f64,
    /// Nanoseconds of a container's curve for a page put and a page got.
    pub(crate) curve_ns: f64,
    /// All cases.
    pub(crate) samples: Vec<Sample>,
}

impl Outcome {
    /// Returns both as tables for people.
    pub(crate) fn summary(&self) -> String {
        let mut text = String::new();
        for (threads, copies, title) in [
            (1, false, "ns for a page put and a page got, one guest"),
            (2, false, "the same, two guests at a time"),
            (1, true, "the same, one guest, with 4 KiB copied each way"),
        ] {
            let chosen =
                |sample: &&Sample| sample.case.threads == threads && sample.case.copies == copies;
            let samples: Vec<&Sample> = self.samples.iter().filter(chosen).collect();
            text += &format!(
                "{title} (median, fastest-slowest round)\n{}\n\n",
                grid(&samples)
            );
        }
        text + &table(&self.targets)
    }
}

/// Returns a table of caches by mix and size.
fn grid(samples: &[&Sample]) -> Table {
    let mut caches = Vec::new();
    for sample in samples {
        if !caches.contains(&sample.case.cache) {
            caches.push(sample.case.cache);
        }
    }
    let mut grid = Table::new();
    grid.load_style(presets::NOTHING);
    grid.set_header(["mix", "pages"].into_iter().chain(caches.iter().copied()));
    for (mix, pages) in Mix::ALL
        .iter()
        .flat_map(|mix| SIZES.map(|pages| (*mix, pages)))
    {
        let here = |sample: &&&Sample| sample.case.mix == mix && sample.case.pages == pages;
        if !samples.iter().any(|sample| here(&sample)) {
            continue;
        }
        let mut row = vec![Cell::new(mix.name()), Cell::new(pages)];
        for cache in &caches {
            let of = |sample: &&&Sample| here(sample) && sample.case.cache == *cache;
            let text = samples.iter().find(of).map_or_else(String::new, |sample| {
                format!(
                    "{:.0} ({:.0}-{:.0})",
                    sample.median_ns, sample.fastest_ns, sample.slowest_ns
                )
            });
            row.push(Cell::new(text).set_alignment(CellAlignment::Right));
        }
        grid.add_row(row);
    }
    grid
}
