// SPDX-License-Identifier: GPL-2.0

//! DoubleDecker, section 5.2: weights that follow the containers (figures 11 and 12, table 3).

use super::record::{FOUR, Record, four};
use super::{Compared, Figure, Part};
use ddcore::policy::Policy;
use ddsim::host::Mode;

const UNTIL: u64 = 1_500;
const LIMITS: [u64; 4] = [1_280, 1_024, 1_024, 750];
const DDMEM: [u32; 4] = [32, 25, 25, 18];
const DDMEM_EX: [u32; 4] = [40, 30, 30, 0];

fn run(mode: Mode, policy: Policy, weights: [u32; 4]) -> Record {
    let mut machine = four(2_048, mode, policy, LIMITS, weights);
    let mut record = Record::default();
    record.run(&mut machine, 4, UNTIL, |_, _| {});
    record
}

pub(super) fn figures() -> Vec<Figure> {
    let global = run(Mode::Global, Policy::Fifo, [25; 4]);
    let ddmem = run(Mode::Weighted, Policy::Fifo, DDMEM);
    let ex = run(Mode::Weighted, Policy::Fifo, DDMEM_EX);
    vec![
        table(),
        gains(&global, &ddmem, &ex),
        shares(&global, &ddmem),
    ]
}

fn table() -> Figure {
    let rows = [("DDMem", DDMEM), ("DDMemEx", DDMEM_EX)];
    let compared = rows.iter().flat_map(|(name, weights)| {
        FOUR.iter().zip(weights).map(move |(load, weight)| {
            let weight = f64::from(*weight);
            Compared::new(format!("{name}, {load}"), "weight", weight, weight)
        })
    });
    Figure {
        name: "DoubleDecker, table 3",
        title: "Weights of the memory tier in figures 11 and 12",
        parts: vec![Part::Missing(
            "DDHybrid (video server on SSD) needs the SSD tier",
        )],
        compared: compared.collect(),
        note: "The paper's configuration, used as it is.",
    }
}

fn gains(global: &Record, ddmem: &Record, ex: &Record) -> Figure {
    let gain = |run: &Record, at| {
        let of = |run: &Record| run.rate(at, 600, UNTIL).megabytes;
        of(run) / of(global).max(0.001)
    };
    let paper = [
        [Some(10.0), Some(11.0)],
        [Some(2.0), Some(3.2)],
        [None, None],
        [Some(0.75), Some(0.8)],
    ];
    let mut bars = Vec::new();
    let mut compared = Vec::new();
    for (at, name) in FOUR.iter().enumerate() {
        for (mode, (run, label)) in [(ddmem, "DDMem"), (ex, "DDMemEx")].into_iter().enumerate() {
            let (what, ours) = (format!("{name}, {label}"), gain(run, at));
            bars.push((what.clone(), ours, paper[at][mode]));
            compared.push(Compared::new(what, "times Global", paper[at][mode], ours));
        }
    }
    Figure {
        name: "DoubleDecker, figure 11",
        title: "Throughput by that with a global store of 2 GiB",
        parts: vec![
            Part::Bars {
                title: "Times Global".into(),
                y: "times",
                bars,
            },
            Part::Missing("DDHybrid needs the SSD tier"),
        ],
        compared,
        note: "DDMemEx is off because of the disk: without a share, ours reads all videos from the \
               one disk that all containers divide, which is a tenth of what it had and makes the \
               others slower than the share they gain makes them faster. The paper's loses a fifth \
               of more than 1 GB/s, so its disks serve videos nearly as fast as its store (in \
               table 2, too, it reads a third past the store at 1.3 GB/s); it does not describe \
               them. DDMem is off because our Global leaves the web server nearly all it reads.",
    }
}

fn shares(global: &Record, ddmem: &Record) -> Figure {
    let lines = |run: &Record, title: &str| Part::Lines {
        title: title.into(),
        x: "seconds",
        y: "MiB in the store",
        lines: run.lines(&FOUR),
    };
    let late = |run: &Record, at| run.mean(at, 1_000, UNTIL);
    Figure {
        name: "DoubleDecker, figure 12",
        title: "Shares of a store of 2 GiB",
        parts: vec![
            lines(global, "(a) Global"),
            lines(ddmem, "(b) DDMem, weights 32:25:25:18"),
            Part::Missing("(c) DDHybrid needs the SSD tier"),
        ],
        compared: vec![
            Compared::new("Videoserver, DDMem, late", "MiB", 400.0, late(ddmem, 3)),
            Compared::new("Videoserver, Global, late", "MiB", None, late(global, 3)),
            Compared::new("Webserver, DDMem, late", "MiB", None, late(ddmem, 0)),
        ],
        note: "With weights the video server falls back to its share and what others leave.",
    }
}
