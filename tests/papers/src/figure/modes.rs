// SPDX-License-Identifier: GPL-2.0-only

//! DoubleDecker, section 5.1: one cache for all, or one with equal weights (figures 9 and 10,
//! table 2).

use super::record::{
    FOUR, MADE, Record, THREADS, UNTIL, evicted_pages, four, lookup_to_store, named, with_ssd,
};
use super::{Compared, Figure, Part};
use crate::verdict::{Band, Order, Place, TWICE};
use ddcore::policy::Policy;
use ddsim::host::Mode;
use ddsim::parallel;
use ddsim::parameters::{SATA, SsdSpeed};

struct Run {
    label: &'static str,
    record: Record,
    /// Hits for each hundred puts of each container.
    lookups: [f64; 4],
    /// Evicted pages of each container.
    evicted: [f64; 4],
}

/// How the store is divided, and what it is made of.
#[derive(Clone, Copy)]
enum Way {
    Global,
    DdMem,
    /// On an SSD of this speed.
    DdSsd(SsdSpeed),
}

const STORE_MIB: u64 = 3_072;

fn run(way: Way) -> Run {
    let (label, mib, mode) = match way {
        Way::Global => ("Global", STORE_MIB, Mode::Global),
        Way::DdMem => ("DDMem", STORE_MIB, Mode::Weighted),
        Way::DdSsd(_) => ("DDSSD", 0, Mode::Weighted),
    };
    let mut machine = four(mib, mode, Policy::Fifo, [1_024; 4], [25; 4], THREADS);
    if let Way::DdSsd(speed) = way {
        with_ssd(&mut machine, speed, [(0, 25); 4]);
    }
    let mut record = Record::default();
    record.run(&mut machine, 4, UNTIL, |_, _| {});
    let containers = [0, 1, 2, 3];
    Run {
        label,
        record,
        lookups: containers.map(|at| lookup_to_store(&machine, at)),
        evicted: containers.map(|at| evicted_pages(&machine, at)),
    }
}

/// An SSD whose reads take longer by this factor, as one does that collects garbage.
const SLOWER: u64 = 8;

pub(super) fn figures() -> Vec<Figure> {
    let slow = SsdSpeed {
        access: SLOWER * SATA.access,
        ..SATA
    };
    let ways = [Way::Global, Way::DdMem, Way::DdSsd(SATA), Way::DdSsd(slow)];
    let runs = parallel::map(&ways, |way| run(*way));
    let [global, weighted, ssd, slow] = &runs[..] else {
        return Vec::new();
    };
    let late = |run: &Run, at| run.record.mean(at, MADE, UNTIL);
    let late_on_ssd = |at| ssd.record.mean_on_ssd(at, MADE, UNTIL);
    let peak = |run: &Run, at: usize| {
        let held = run.record.held[at].iter().map(|(_, mib)| *mib);
        held.fold(0.0, f64::max)
    };
    let nine = Figure {
        name: "DoubleDecker, figure 9",
        title: "Shares of a 3 GiB store among web server, proxy and mail",
        parts: vec![
            Part::held("(a) Global", global.record.lines(&FOUR[..3])),
            Part::held(
                "(b) DDMem, equal weights",
                weighted.record.lines(&FOUR[..3]),
            ),
            Part::held("(c) DDSSD", ssd.record.lines_on_ssd(&FOUR[..3])),
        ],
        compared: vec![
            Compared::new("Webserver, DDMem", "MiB", 800.0, late(weighted, 0)).within(TWICE),
            Compared::new("Mail, Global: at most", "MiB", 400.0, peak(global, 2)).within(TWICE),
            Compared::new("Mail, Global, late", "MiB", None, late(global, 2)),
            Compared::new("Mail, DDMem", "MiB", None, late(weighted, 2)),
            Compared::new("Proxycache, DDMem", "MiB", None, late(weighted, 1)),
            Compared::new("Webserver, DDSSD", "MiB", 800.0, late_on_ssd(0)).within(TWICE),
            Compared::new("Mail, DDSSD", "MiB", None, late_on_ssd(2)),
            Compared::new("Proxycache, DDSSD", "MiB", None, late_on_ssd(1)),
        ],
        orders: vec![
            Order {
                what: "the web server's share".into(),
                places: vec![
                    Place::new("DDMem", None, late(weighted, 0)),
                    Place::new("Global", None, late(global, 0)),
                ],
            },
            Order {
                what: "the mail server's share".into(),
                places: vec![
                    Place::new("DDMem", None, late(weighted, 2)),
                    Place::new("Global", None, late(global, 2)),
                ],
            },
        ],
        note: "Sizes of the file sets are memory and store that the paper's text gives each \
               container; the division between them is a result. The paper says that the SSD \
               verified the peak use with DDMem, which is 800 MB of the web server."
            .into(),
    };
    let early = ssd.record.on_ssd[3].iter();
    let early = early.filter(|(second, _)| *second <= ALONE as f64);
    let early = early.map(|(_, mib)| *mib).fold(0.0, f64::max);
    let ten = Figure {
        name: "DoubleDecker, figure 10",
        title: "The video server's share in the same runs",
        parts: vec![Part::held(
            "Videoserver",
            named(
                &["Global", "DDMem", "DDSSD"],
                [
                    global.record.held[3].clone(),
                    weighted.record.held[3].clone(),
                    ssd.record.on_ssd[3].clone(),
                ],
            ),
        )],
        compared: vec![
            Compared::new("Global, late", "MiB", 1_400.0, late(global, 3)).within(TWICE),
            Compared::new("DDMem, late", "MiB", 1_200.0, late(weighted, 3)).within(TWICE),
            Compared::new("DDSSD, until 500 s", "MiB", 3_072.0, early).within(TWICE),
        ],
        orders: vec![Order {
            what: "the video server's share".into(),
            places: vec![
                Place::new("Global", None, late(global, 3)),
                Place::new("DDMem", None, late(weighted, 3)),
            ],
        }],
        note: format!(
            "At most {:.0} MiB with Global; the paper says up to 3 GB. It says the same of all modes \
             for the first 500 s, in which no other container needs the store; the size of a video \
             was fitted to evictions. The SSD has room for all videos, of which it holds {:.0} MiB in \
             the end; the paper's text does not say how many.",
            peak(global, 3),
            late_on_ssd(3),
        ),
    };
    vec![nine, ten, table([global, weighted, ssd], slow)]
}

/// Second until which only the video server needs the store, in the paper.
const ALONE: u64 = 500;

/// A third of the time in which throughputs are measured, in seconds.
const THIRD: u64 = (UNTIL - MADE) / 3;

/// Throughput, latency, ratio, evictions: the paper's table 2.
const PAPER: [[[f64; 4]; 3]; 4] = [
    [
        [14.2, 29.2, 93.0, 209_815.0],
        [93.7, 3.0, 99.0, 0.0],
        [5.5, 73.0, 91.0, 0.0],
    ],
    [
        [5.4, 89.1, 76.0, 2_880.0],
        [5.6, 85.9, 76.0, 0.0],
        [5.2, 91.5, 75.9, 0.0],
    ],
    [
        [1.3, 598.2, 1.0, 159_793.0],
        [1.4, 555.7, 32.0, 0.0],
        [2.0, 386.7, 44.0, 0.0],
    ],
    [
        [1_276.0, 2.6, 65.0, 1_650_424.0],
        [1_188.0, 2.9, 57.0, 2_076_672.0],
        [481.5, 7.8, 67.0, 0.0],
    ],
];

/// Returns the numbers of each container in each mode.
fn cells(runs: &[&Run; 3]) -> Vec<Compared> {
    let mut cells = Vec::new();
    for (at, name) in FOUR.iter().enumerate() {
        for (mode, run) in runs.iter().enumerate() {
            let rate = run.record.rate(at, MADE, UNTIL);
            let [megabytes, latency, ratio, evictions] = PAPER[at][mode];
            let what = |kind: &str| format!("{name}, {}: {kind}", run.label);
            let evicted = match evictions {
                0.0 => Band::AtMost,
                _ => Band::Shown,
            };
            cells.extend([
                Compared::new(what("throughput"), "MB/s", megabytes, rate.megabytes),
                Compared::new(what("latency"), "ms", latency, rate.latency_ms),
                Compared::new(what("lookups to stores"), "%", ratio, run.lookups[at]),
                Compared::new(what("evictions"), "pages", evictions, run.evicted[at])
                    .within(evicted),
            ]);
        }
    }
    cells
}

/// Returns the evictions of each container in memory, in words.
fn evictions(runs: &[&Run; 3]) -> String {
    let evictions = FOUR.iter().enumerate().flat_map(|(at, name)| {
        [0, 1].map(|mode: usize| {
            let [ours, paper] = [runs[mode].evicted[at], PAPER[at][mode][3]];
            let [ours, paper] = [ours, paper].map(|pages| pages / 1_000.0);
            format!("{name}, {} {ours:.0} (paper {paper:.0})", runs[mode].label)
        })
    });
    let evictions: Vec<String> = evictions.collect();
    evictions.join(", ")
}

fn speed(run: &Run, at: usize) -> f64 {
    run.record.rate(at, MADE, UNTIL).megabytes
}

fn table(runs: [&Run; 3], slow: &Run) -> Figure {
    let [global, weighted, ssd] = runs;
    let gain = |run: &Run, at| speed(run, at) / speed(global, at).max(0.001);
    let paper = |mode: usize, at: usize| PAPER[at][mode][0] / PAPER[at][0][0];
    let (mut compared, mut parts) = (Vec::new(), Vec::new());
    for (mode, run) in [(1, weighted), (2, ssd)] {
        let mut bars = Vec::new();
        for (at, name) in FOUR.iter().enumerate() {
            let (what, ours) = (format!("{name}: {} by Global", run.label), gain(run, at));
            let row = Compared::new(what, "times", paper(mode, at), ours);
            compared.push(row.within(Band::Gain));
            bars.push((name.to_string(), ours, Some(paper(mode, at))));
        }
        parts.push(Part::bars(format!("{} / Global", run.label), "times", bars));
    }
    compared.extend(cells(&runs));
    let others = (1..FOUR.len()).map(|at| gain(weighted, at));
    let mut orders = vec![Order {
        what: "gains, the web server and the best of the others".into(),
        places: vec![
            Place::new(FOUR[0], None, gain(weighted, 0)),
            Place::new("others", None, others.fold(f64::MIN, f64::max)),
        ],
    }];
    orders.extend(FOUR.iter().enumerate().map(|(at, name)| {
        let places = runs.iter().zip(PAPER[at]);
        let places = places.map(|(run, paper)| Place::new(run.label, paper[0], speed(run, at)));
        let places: Vec<Place> = places.collect();
        Order::by_paper(format!("modes, {name}, in MB/s"), places)
    }));
    let web = |run: &Run| run.record.rate(0, MADE, UNTIL);
    Figure {
        name: "DoubleDecker, table 2",
        title: "Throughput with DDMem and with DDSSD by throughput with Global",
        parts,
        compared,
        orders,
        note: format!(
            "The web server reads {:.1} files of 16 KiB a second from the disk with Global, and \
             {:.1} with DDMem. With Global it recovers as its files come back from the disk: \
             {:.1} MB/s in the first third of the time, {:.1} MB/s in the last, so that the gain \
             depends on how long it is measured. The size of a video and the length of the run were \
             chosen by the counts of evictions, which in thousands of pages are: {}. With DDSSD the \
             web server reads {:.0} files a second from the SSD and {:.1} from the disk. The paper's \
             web server is slower: with reads of the SSD that take {SLOWER} times as long, this one \
             serves {:.1} MB/s (paper 5.5), and the mail server {:.2} (paper 2). The paper's text says of the web and the video server that they are \
             around 300 % lower than with memory; its table has a seventeenth for the web server. \
             The video server reads {:.1} units of 16 KiB a second from the SSD, because its streams \
             stay in its page cache, and so its SSD does not slow it down as in the paper.",
            web(global).disk,
            web(weighted).disk,
            global.record.rate(0, MADE, MADE + THIRD).megabytes,
            global.record.rate(0, UNTIL - THIRD, UNTIL).megabytes,
            evictions(&runs),
            web(ssd).ssd,
            web(ssd).disk,
            speed(slow, 0),
            speed(slow, 2),
            ssd.record.rate(3, MADE, UNTIL).ssd,
        ),
    }
}
