// SPDX-License-Identifier: GPL-2.0

//! DoubleDecker, section 5.2: weights that follow the containers (figures 11 and 12). The weights
//! are those of table 3.

use super::record::{FOUR, Record, four};
use super::{Compared, Figure, Part};
use crate::verdict::{Order, TWICE};
use ddcore::policy::Policy;
use ddsim::host::Mode;

const UNTIL: u64 = 1_500;
/// By now all files are made, and the servers run.
const FROM: u64 = 800;
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
    vec![gains(&global, &ddmem, &ex), shares(&global, &ddmem)]
}

fn gains(global: &Record, ddmem: &Record, ex: &Record) -> Figure {
    let gain = |run: &Record, at| {
        let of = |run: &Record| run.rate(at, FROM, UNTIL).megabytes;
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
            let row = Compared::new(what, "times Global", paper[at][mode], ours);
            compared.push(match paper[at][mode] {
                Some(_) => row.within(TWICE),
                None => row,
            });
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
        orders: [(ddmem, "gains with DDMem"), (ex, "gains with DDMemEx")]
            .map(|(run, what)| Order {
                what,
                ours: [0, 1, 3].map(|at| (FOUR[at].into(), gain(run, at))).into(),
            })
            .into(),
        note: format!(
            "With Global the web server serves {:.1} MB/s and reads {:.0} units of 16 KiB a second \
             from the disk, the video server {:.0} MB/s and {:.0} units; with DDMemEx the video \
             server reads {:.0}.",
            global.rate(0, FROM, UNTIL).megabytes,
            global.rate(0, FROM, UNTIL).disk,
            global.rate(3, FROM, UNTIL).megabytes,
            global.rate(3, FROM, UNTIL).disk,
            ex.rate(3, FROM, UNTIL).disk
        ),
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
            Compared::new("Videoserver, DDMem, late", "MiB", 400.0, late(ddmem, 3)).within(TWICE),
            Compared::new("Videoserver, Global, late", "MiB", None, late(global, 3)),
            Compared::new("Webserver, DDMem, late", "MiB", None, late(ddmem, 0)),
        ],
        orders: vec![
            Order {
                what: "the video server's share",
                ours: vec![
                    ("Global".into(), late(global, 3)),
                    ("DDMem".into(), late(ddmem, 3)),
                ],
            },
            Order {
                what: "shares with Global",
                ours: vec![
                    (FOUR[3].into(), late(global, 3)),
                    (FOUR[0].into(), late(global, 0)),
                ],
            },
        ],
        note: "With weights the video server falls back to its share and what others leave.".into(),
    }
}
