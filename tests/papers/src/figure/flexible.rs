// SPDX-License-Identifier: GPL-2.0-only

//! DoubleDecker, section 5.2: weights that follow the containers (figures 11 and 12). The weights
//! are those of table 3.

use super::record::{FOUR, MADE, Record, THREADS, UNTIL, evicted_pages, four, with_ssd};
use super::{Compared, Figure, Part};
use crate::verdict::{Band, Order, Place, TWICE};
use ddcore::policy::Policy;
use ddsim::host::Mode;
use ddsim::parallel;
use ddsim::parameters::{SATA, VIDEO_MIB};

const STORE_MIB: u64 = 2_048;
const LIMITS: [u64; 4] = [1_280, 1_024, 1_024, 750];
const DDMEM: [u32; 4] = [32, 25, 25, 18];
const DDMEM_EX: [u32; 4] = [40, 30, 30, 0];

/// Numbers of threads that follow from table 2 if its latencies are those of reads and writes
/// alone, although Filebench's latencies include other operations.
const FEW: [usize; 4] = [25, 30, 50, 16];

/// Weights with DDHybrid: in memory, and on the SSD.
const DDHYBRID: [(u32, u32); 4] = [(40, 0), (30, 0), (30, 0), (0, 100)];

struct Run {
    record: Record,
    /// Evicted pages of each container.
    evicted: [f64; 4],
}

/// How the store is divided.
#[derive(Clone, Copy)]
enum Way {
    Global,
    Weights([u32; 4]),
    Hybrid,
}

fn run(way: Way, threads: [usize; 4]) -> Run {
    let (mode, weights) = match way {
        Way::Global => (Mode::Global, [25; 4]),
        Way::Weights(weights) => (Mode::Weighted, weights),
        Way::Hybrid => (Mode::Weighted, DDMEM_EX),
    };
    let mut machine = four(STORE_MIB, mode, Policy::Fifo, LIMITS, weights, threads);
    if matches!(way, Way::Hybrid) {
        with_ssd(&mut machine, SATA, DDHYBRID);
    }
    let mut record = Record::default();
    record.run(&mut machine, 4, UNTIL, |_, _| {});
    let evicted = [0, 1, 2, 3].map(|at| evicted_pages(&machine, at));
    Run { record, evicted }
}

pub(super) fn figures() -> Vec<Figure> {
    let ways = [
        (Way::Global, THREADS),
        (Way::Weights(DDMEM), THREADS),
        (Way::Weights(DDMEM_EX), THREADS),
        (Way::Hybrid, THREADS),
        (Way::Global, FEW),
        (Way::Weights(DDMEM), FEW),
    ];
    let runs = parallel::map(&ways, |(way, threads)| run(*way, *threads));
    let [global, ddmem, ex, hybrid, few_global, few_ddmem] = &runs[..] else {
        return Vec::new();
    };
    let few = megabytes(few_ddmem, 0) / megabytes(few_global, 0).max(0.001);
    let modes = [("DDMem", ddmem), ("DDMemEx", ex), ("DDHybrid", hybrid)];
    vec![gains(global, &modes, few), shares(global, ddmem, hybrid)]
}

fn megabytes(run: &Run, at: usize) -> f64 {
    run.record.rate(at, MADE, UNTIL).megabytes
}

/// Gains of figure 11 with DDMem, DDMemEx and DDHybrid, which the text has of all but the mail
/// server.
const PAPER: [[Option<f64>; 3]; 4] = [
    [Some(10.0), Some(11.0), Some(11.0)],
    [Some(2.0), Some(3.2), Some(3.0)],
    [None; 3],
    [Some(0.75), Some(0.8), Some(3.6)],
];

/// `few` is the web server's gain with DDMem and [`FEW`] threads.
fn gains(global: &Run, modes: &[(&str, &Run); 3], few: f64) -> Figure {
    let gain = |run: &Run, at| megabytes(run, at) / megabytes(global, at).max(0.001);
    let mut bars = Vec::new();
    let mut compared = Vec::new();
    for (at, name) in FOUR.iter().enumerate() {
        for (mode, (label, run)) in modes.iter().enumerate() {
            let (what, ours) = (format!("{name}, {label}"), gain(run, at));
            bars.push((what.clone(), ours, PAPER[at][mode]));
            let row = Compared::new(what, "times Global", PAPER[at][mode], ours);
            compared.push(match PAPER[at][mode] {
                Some(_) => row.within(Band::Gain),
                None => row,
            });
        }
    }
    // The mail server's gains were "marginal", without a number.
    let told = [0, 1, 3];
    let mut orders = Vec::new();
    for (mode, (label, run)) in modes.iter().enumerate() {
        let places = told.map(|at| Place::new(FOUR[at], PAPER[at][mode], gain(run, at)));
        orders.push(Order::by_paper(format!("gains with {label}"), places));
    }
    for at in told {
        let mut places = vec![Place::new("Global", 1.0, 1.0)];
        let others = modes.iter().zip(PAPER[at]);
        places.extend(others.map(|((label, run), paper)| Place::new(*label, paper, gain(run, at))));
        orders.push(Order::by_paper(
            format!("modes, {}, by Global", FOUR[at]),
            places,
        ));
    }
    let video = |run: &Run| run.record.rate(3, MADE, UNTIL);
    let [(_, ddmem), (_, ex), (_, hybrid)] = modes;
    Figure {
        name: "DoubleDecker, figure 11",
        title: "Throughput by that with a global store of 2 GiB",
        parts: vec![Part::bars("Times Global", "times", bars)],
        compared,
        orders,
        note: format!(
            "With Global the web server serves {:.1} MB/s and reads {:.0} units of 16 KiB a second \
             from the disk, the video server {:.0} MB/s and {:.0} units; with DDMem the video \
             server reads {:.0}, with DDMemEx {:.0}, and with DDHybrid {:.0} from the SSD and {:.0} from \
             the disk. Its {} streams repeat videos of {} MiB \
             together, and its memory is {} MiB, so that it reads nothing from the store and does \
             not need its share; while its writer waits for the disk, it occupies one of its two \
             processors, which is longer with Global. The gain depends on how many threads there are beside the video \
             server's writer: with {} in the web server, {} in the proxy and {} in the mail server \
             it is {few:.1} times with DDMem, where here {}, {} and {} make {:.1}.",
            megabytes(global, 0),
            global.record.rate(0, MADE, UNTIL).disk,
            megabytes(global, 3),
            video(global).disk,
            video(ddmem).disk,
            video(ex).disk,
            video(hybrid).ssd,
            video(hybrid).disk,
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

fn shares(global: &Run, ddmem: &Run, hybrid: &Run) -> Figure {
    let lines = |run: &Run, title: &str| Part::held(title, run.record.lines(&FOUR));
    let late = |run: &Run, at| run.record.mean(at, MADE, UNTIL);
    let share = |at: usize| STORE_MIB as f64 * f64::from(DDMEM[at]) / 100.0;
    let mut compared = vec![
        Compared::new("Videoserver, DDMem, late", "MiB", 400.0, late(ddmem, 3)).within(TWICE),
        Compared::new("Videoserver, Global, late", "MiB", None, late(global, 3)),
        Compared::new("Webserver, DDMem, late", "MiB", None, late(ddmem, 0)),
    ];
    // "Each occupied about 500 MB to 600 MB", without evictions.
    for (at, name) in FOUR[..3].iter().enumerate() {
        let what = format!("{name}, DDHybrid, late");
        compared.push(Compared::new(what, "MiB", 550.0, late(hybrid, at)).within(TWICE));
    }
    for (at, name) in FOUR[..3].iter().enumerate() {
        let what = format!("{name}, DDHybrid: evictions");
        let row = Compared::new(what, "pages", 0.0, hybrid.evicted[at]);
        compared.push(row.within(Band::AtMost));
    }
    Figure {
        name: "DoubleDecker, figure 12",
        title: "Shares of a store of 2 GiB",
        parts: vec![
            lines(global, "(a) Global"),
            lines(ddmem, "(b) DDMem, weights 32:25:25:18"),
            lines(hybrid, "(c) DDHybrid, the video server on the SSD"),
        ],
        compared,
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
             leave {:.0} MiB of theirs. With DDHybrid it has {:.0} MiB on the SSD.",
            late(ddmem, 3),
            share(3),
            (0..3).map(|at| share(at) - late(ddmem, at)).sum::<f64>(),
            hybrid.record.mean_on_ssd(3, MADE, UNTIL),
        ),
    }
}
