// SPDX-License-Identifier: GPL-2.0

//! DoubleDecker, section 5.1: one cache for all, or one with equal weights (figures 9 and 10,
//! table 2).

use super::record::{FOUR, Rate, Record, evicted_pages, four, lookup_to_store, named};
use super::{Compared, Figure, Part};
use ddcore::policy::Policy;
use ddsim::host::Mode;
use ddsim::machine::Machine;

const UNTIL: u64 = 1_500;

struct Run {
    record: Record,
    machine: Machine,
}

fn run(mode: Mode) -> Run {
    let mut machine = four(3_072, mode, Policy::Fifo, [1_024; 4], [25; 4]);
    let mut record = Record::default();
    record.run(&mut machine, 4, UNTIL, |_, _| {});
    Run { record, machine }
}

pub(super) fn figures() -> Vec<Figure> {
    let (global, weighted) = (run(Mode::Global), run(Mode::Weighted));
    let lines = |run: &Run, title: &str| Part::Lines {
        title: title.into(),
        x: "seconds",
        y: "MiB in the store",
        lines: run.record.lines(&FOUR[..3]),
    };
    let late = |run: &Run, at| run.record.mean(at, 1_000, UNTIL);
    let nine = Figure {
        name: "DoubleDecker, figure 9",
        title: "Shares of a 3 GiB store among web server, proxy and mail",
        parts: vec![
            lines(&global, "(a) Global"),
            lines(&weighted, "(b) DDMem, equal weights"),
            Part::Missing("(c) DDSSD needs the SSD tier"),
        ],
        compared: vec![
            Compared::new("Webserver, DDMem", "MiB", 800.0, late(&weighted, 0)),
            Compared::new("Mail, Global: at most", "MiB", 400.0, late(&global, 2)),
            Compared::new("Mail, DDMem", "MiB", None, late(&weighted, 2)),
            Compared::new("Proxycache, DDMem", "MiB", None, late(&weighted, 1)),
        ],
        note: "Sizes of the file sets are ours, for the paper names none; they were chosen to use \
               about as much as its figure shows, the division between them was not.",
    };
    let ten = Figure {
        name: "DoubleDecker, figure 10",
        title: "The video server's share in the same runs",
        parts: vec![
            Part::Lines {
                title: "Videoserver".into(),
                x: "seconds",
                y: "MiB in the store",
                lines: named(
                    &["Global", "DDMem"],
                    [&global, &weighted].map(|run| run.record.held[3].clone()),
                ),
            },
            Part::Missing("DDSSD needs the SSD tier"),
        ],
        compared: vec![
            Compared::new("Global, late", "MiB", 1_400.0, late(&global, 3)),
            Compared::new("DDMem, late", "MiB", 1_200.0, late(&weighted, 3)),
        ],
        note: "Ours peaks below 3 GiB, for the other containers begin to need the store earlier \
               than the videos fill it.",
    };
    vec![nine, ten, table(&global, &weighted)]
}

/// Throughput, latency, ratio, evictions: the paper's table 2.
const PAPER: [[[f64; 4]; 2]; 4] = [
    [[14.2, 29.2, 93.0, 209_815.0], [93.7, 3.0, 99.0, 0.0]],
    [[5.4, 89.1, 76.0, 2_880.0], [5.6, 85.9, 76.0, 0.0]],
    [[1.3, 598.2, 1.0, 159_793.0], [1.4, 555.7, 32.0, 0.0]],
    [
        [1_276.0, 2.6, 65.0, 1_650_424.0],
        [1_188.0, 2.9, 57.0, 2_076_672.0],
    ],
];

fn table(global: &Run, weighted: &Run) -> Figure {
    let mut compared = Vec::new();
    for (at, name) in FOUR.iter().enumerate() {
        for (mode, (run, label)) in [(global, "Global"), (weighted, "DDMem")]
            .into_iter()
            .enumerate()
        {
            let Rate {
                megabytes,
                latency_ms,
                ..
            } = run.record.rate(at, 600, UNTIL);
            let paper = PAPER[at][mode];
            let what = |kind: &str| format!("{name}, {label}: {kind}");
            compared.extend([
                Compared::new(what("throughput"), "MB/s", paper[0], megabytes),
                Compared::new(what("latency"), "ms", paper[1], latency_ms),
                Compared::new(
                    what("lookups to stores"),
                    "%",
                    paper[2],
                    lookup_to_store(&run.machine, at),
                ),
                Compared::new(
                    what("evictions"),
                    "pages",
                    paper[3],
                    evicted_pages(&run.machine, at),
                ),
            ]);
        }
    }
    let bars = FOUR.iter().enumerate().map(|(at, name)| {
        let of = |run: &Run| run.record.rate(at, 600, UNTIL).megabytes;
        let ours = of(weighted) / of(global).max(0.001);
        (
            name.to_string(),
            ours,
            Some(PAPER[at][1][0] / PAPER[at][0][0]),
        )
    });
    Figure {
        name: "DoubleDecker, table 2",
        title: "Throughput with DDMem by throughput with Global",
        parts: vec![
            Part::Bars {
                title: "DDMem / Global".into(),
                y: "times",
                bars: bars.collect(),
            },
            Part::Missing("DDSSD needs the SSD tier"),
        ],
        compared,
        note: "With weights only the video server is evicted, as in the paper. The web server \
               gains nothing here, because our proxy and mail leave the global cache's FIFO less to \
               fight over. The paper's proxy and mail take 86 and 556 ms an operation in both \
               modes, the proxy with three of four lookups answered by the store, so that they \
               wait for something else, which it does not name; ours wait for a disk that serves \
               all containers in turn, and for no more than that.",
    }
}
