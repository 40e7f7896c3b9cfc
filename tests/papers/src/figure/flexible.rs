// SPDX-License-Identifier: GPL-2.0-only

//! DoubleDecker, section 5.2: weights that follow the containers (figures 11 and 12). The weights
//! are those of table 3.

use super::record::{FOUR, MADE, Record, THREADS, UNTIL, four};
use super::{Compared, Figure, Part};
use crate::verdict::{Band, Order, Place, TWICE};
use ddcore::policy::Policy;
use ddsim::host::Mode;
use ddsim::parallel;
use ddsim::parameters::VIDEO_MIB;

const STORE_MIB: u64 = 2_048;
const LIMITS: [u64; 4] = [1_280, 1_024, 1_024, 750];
const DDMEM: [u32; 4] = [32, 25, 25, 18];
const DDMEM_EX: [u32; 4] = [40, 30, 30, 0];

/// Numbers of threads that follow from table 2 if its latencies are those of reads and writes
/// alone, although Filebench's latencies include other operations.
const FEW: [usize; 4] = [25, 30, 50, 16];

fn run(mode: Mode, weights: [u32; 4], threads: [usize; 4]) -> Record {
    let mut machine = four(STORE_MIB, mode, Policy::Fifo, LIMITS, weights, threads);
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
                Some(_) => row.within(Band::Gain),
                None => row,
            });
        }
    }
    // The mail server's gains were "marginal", without a number.
    let told = [0, 1, 3];
    let mut orders = Vec::new();
    for (mode, (run, label)) in [(ddmem, "DDMem"), (ex, "DDMemEx")].into_iter().enumerate() {
        let places = told.map(|at| Place::new(FOUR[at], paper[at][mode], gain(run, at)));
        orders.push(Order::by_paper(format!("gains with {label}"), places));
    }
    for at in told {
        let places = [
            Place::new("Global", 1.0, 1.0),
            Place::new("DDMem", paper[at][0], gain(ddmem, at)),
            Place::new("DDMemEx", paper[at][1], gain(ex, at)),
        ];
        orders.push(Order::by_paper(
            format!("modes, {}, by Global", FOUR[at]),
            places,
        ));
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
        orders,
        note: format!(
            "With Global the web server serves {:.1} MB/s and reads {:.0} units of 16 KiB a second \
             from the disk, the video server {:.0} MB/s and {:.0} units; with DDMem the video \
             server reads {:.0}, with DDMemEx {:.0}. Its {} streams repeat videos of {} MiB \
             together, and its memory is {} MiB, so that it reads nothing from the store and does \
             not need its share; while its writer waits for the disk, it occupies one of its two \
             processors, which is longer with Global. The gain depends on how many threads there are beside the video \
             server's writer: with {} in the web server, {} in the proxy and {} in the mail server \
             it is {few:.1} times with DDMem, where here {}, {} and {} make {:.1}.",
            global.rate(0, MADE, UNTIL).megabytes,
            global.rate(0, MADE, UNTIL).disk,
            global.rate(3, MADE, UNTIL).megabytes,
            global.rate(3, MADE, UNTIL).disk,
            ddmem.rate(3, MADE, UNTIL).disk,
            ex.rate(3, MADE, UNTIL).disk,
            THREADS[3] - 1,
            (THREADS[3] as u64 - 1) * VIDEO_MIB,
            LIMITS[3],
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
    let share = |at: usize| STORE_MIB as f64 * f64::from(DDMEM[at]) / 100.0;
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
                what: "the video server's share".into(),
                places: vec![
                    Place::new("Global", None, late(global, 3)),
                    Place::new("DDMem", None, late(ddmem, 3)),
                ],
            },
            Order {
                what: "shares with Global".into(),
                places: vec![
                    Place::new(FOUR[3], None, late(global, 3)),
                    Place::new(FOUR[0], None, late(global, 0)),
                ],
            },
        ],
        note: format!(
            "With weights the video server has {:.0} MiB: {:.0} MiB are its share, and the others \
             leave {:.0} MiB of theirs.",
            late(ddmem, 3),
            share(3),
            (0..3).map(|at| share(at) - late(ddmem, at)).sum::<f64>(),
        ),
    }
}
