// SPDX-License-Identifier: GPL-2.0-only

//! DoubleDecker, section 5.2: weights that follow the containers (figures 11 and 12). The weights
//! are those of table 3.

use super::record::{FOUR, MADE, Record, THREADS, UNTIL, four};
use super::{Compared, Figure, Part};
use crate::verdict::{Order, TWICE};
use ddcore::policy::Policy;
use ddsim::host::Mode;
use ddsim::parallel;

const LIMITS: [u64; 4] = [1_280, 1_024, 1_024, 750];
const DDMEM: [u32; 4] = [32, 25, 25, 18];
const DDMEM_EX: [u32; 4] = [40, 30, 30, 0];

/// Numbers of threads that follow from table 2 if its latencies are those of reads and writes
/// alone, although Filebench's latencies include other operations.
const FEW: [usize; 4] = [25, 30, 50, 16];

fn run(mode: Mode, weights: [u32; 4], threads: [usize; 4]) -> Record {
    let mut machine = four(2_048, mode, Policy::Fifo, LIMITS, weights, threads);
    let mut record = Record::default();
    record.run(&mut machine, 4, UNTIL, |_, _| {});
    record
}

pub(super) fn figures() -> Vec<Figure> {
    let ways = [
        (Mode::Global, [25; 4], THREADS),
        (Mode::Weighted, DDMEM, THREADS),
        (Mode::Weighted, DDMEM_EX, THREADS),
        (Mode::Global, [25; 4], FEW),
        (Mode::Weighted, DDMEM, FEW),
    ];
    let runs = parallel::map(&ways, |(mode, weights, threads)| {
        run(*mode, *weights, *threads)
    });
    let [global, ddmem, ex, few_global, few_ddmem] = &runs[..] else {
        return Vec::new();
    };
    let few = megabytes(few_ddmem, 0) / megabytes(few_global, 0).max(0.001);
    vec![gains(global, ddmem, ex, few), shares(global, ddmem)]
}

fn megabytes(run: &Record, at: usize) -> f64 {
    run.rate(at, MADE, UNTIL).megabytes
}

/// `few` is the web server's gain with DDMem and [`FEW`] threads.
fn gains(global: &Record, ddmem: &Record, ex: &Record, few: f64) -> Figure {
    let gain = |run: &Record, at| megabytes(run, at) / megabytes(global, at).max(0.001);
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
            Part::bars("Times Global", "times", bars),
            Part::Missing(
                "DDHybrid is not simulated here: the simulator's SSD tier has the speed of a common \
                 NVMe device, not of the paper's SSD",
            ),
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
             server reads {:.0}. The gain depends on how many threads there are beside the video \
             server's writer: with {} in the web server, {} in the proxy and {} in the mail server \
             it is {few:.1} times with DDMem, where here {}, {} and {} make {:.1}.",
            global.rate(0, MADE, UNTIL).megabytes,
            global.rate(0, MADE, UNTIL).disk,
            global.rate(3, MADE, UNTIL).megabytes,
            global.rate(3, MADE, UNTIL).disk,
            ex.rate(3, MADE, UNTIL).disk,
            FEW[0],
            FEW[1],
            FEW[2],
            THREADS[0],
            THREADS[1],
            THREADS[2],
            gain(ddmem, 0),
        ),
    }
}

fn shares(global: &Record, ddmem: &Record) -> Figure {
    let lines = |run: &Record, title: &str| Part::held(title, run.lines(&FOUR));
    let late = |run: &Record, at| run.mean(at, MADE, UNTIL);
    Figure {
        name: "DoubleDecker, figure 12",
        title: "Shares of a store of 2 GiB",
        parts: vec![
            lines(global, "(a) Global"),
            lines(ddmem, "(b) DDMem, weights 32:25:25:18"),
            Part::Missing(
                "(c) DDHybrid is not simulated here: the simulator's SSD tier has the speed of a common \
                 NVMe device, not of the paper's SSD",
            ),
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
