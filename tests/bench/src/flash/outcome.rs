// SPDX-License-Identifier: GPL-2.0-only

//! The report.

use comfy_table::{Cell, CellAlignment, Table, presets};
use ddlab::{
    median,
    report::{Target, table},
};
use serde::Serialize;

use super::course::{SHAPES, Sample};
use crate::contest::ENGINE;

/// What the two columns do not have in common.
const DIFFERENCES: &str = "\
The caches do not do the same work. foyer is a general cache. It is inclusive: a get leaves the page
there, and the next round replaces it. It runs on tokio and reads in other threads, and stores a key
and a header with each entry, so that 4 KiB take 8. Here its keys are numbers, its tasks run in one
thread, puts bypass its memory, and each 512 of them wait for the file. The engine is exclusive, as by
default: a get takes the page out. It writes whole segments and reads neighbouring pages at once. In
the kernel it uses bios; this is the code of ddcore above system calls, without the module's locks,
hypercalls and writer threads. The times include the system calls, which copy if the file is in
memory.";

/// A verb, and its rounds in a sample.
type Verb = (&'static str, fn(&Sample) -> &[f64]);

const VERBS: [Verb; 2] = [
    ("put", |sample| &sample.put_ns),
    ("get", |sample| &sample.get_ns),
];

/// All results.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    pages: u64,
    differences: &'static str,
    pub(super) targets: Vec<Target>,
    samples: Vec<Sample>,
}

impl Outcome {
    pub(super) fn new(pages: u64, samples: Vec<Sample>) -> Self {
        Self {
            pages,
            differences: DIFFERENCES,
            targets: targets(&samples),
            samples,
        }
    }

    /// Returns all results as tables for people.
    pub(super) fn summary(&self) -> String {
        let mut grid = Table::new();
        grid.load_style(presets::NOTHING);
        grid.set_header(["pages", "cache", "put", "get", "written", "read"]);
        for sample in &self.samples {
            let times = VERBS.map(|(_, rounds)| {
                let mut rounds = rounds(sample).to_vec();
                rounds.sort_by(f64::total_cmp);
                let median = median(rounds.iter().copied()).expect("there are rounds");
                format!(
                    "{median:.0} ({:.0}-{:.0})",
                    rounds[0],
                    rounds[rounds.len() - 1]
                )
            });
            let bytes = [sample.written, sample.read].map(|bytes| format!("{bytes:.0}"));
            let figures = times.into_iter().chain(bytes);
            let right = |text| Cell::new(text).set_alignment(CellAlignment::Right);
            let names = [sample.shape, sample.cache].map(Cell::new);
            grid.add_row(names.into_iter().chain(figures.map(right)));
        }
        format!(
            "ns of processor time of the process for a page of 4 KiB (median, fastest-slowest \
             round), and bytes of the file for a page; {} pages\n{grid}\n\n{DIFFERENCES}\n\n{}",
            self.pages,
            table(&self.targets)
        )
    }
}

/// Returns targets that compare the engine with its peer.
fn targets(samples: &[Sample]) -> Vec<Target> {
    let mut targets = Vec::new();
    for (shape, _) in SHAPES {
        let mut of_shape = samples.iter().filter(|sample| sample.shape == shape);
        let Some(engine) = of_shape.clone().find(|sample| sample.cache == ENGINE) else {
            continue;
        };
        let Some(peer) = of_shape.find(|sample| sample.cache != ENGINE) else {
            continue;
        };
        for (verb, rounds) in VERBS {
            // Each round measured both.
            let pairs = rounds(peer).iter().zip(rounds(engine));
            let ratios = pairs.map(|(peer, engine)| peer / engine);
            let name = format!("{shape}, {verb}: {} takes", peer.cache);
            let times = median(ratios).expect("there are rounds");
            targets.push(Target::at_least(name, 1.0, times, "times as long"));
        }
    }
    targets
}
