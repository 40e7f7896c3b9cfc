// SPDX-License-Identifier: GPL-2.0-only

//! DoubleDecker, section 5.1: one cache for all, or one with equal weights (figures 9 and 10,
//! table 2).

use super::record::{
    FOUR, MADE, Record, THREADS, UNTIL, evicted_pages, four, lookup_to_store, named,
};
use super::{Compared, Figure, Part};
use crate::verdict::{Band, Order, Place, TWICE};
use ddcore::policy::Policy;
use ddsim::host::Mode;
use ddsim::machine::Machine;

struct Run {
    record: Record,
    machine: Machine,
}

fn run(mode: Mode) -> Run {
    let mut machine = four(3_072, mode, Policy::Fifo, [1_024; 4], [25; 4], THREADS);
    let mut record = Record::default();
    record.run(&mut machine, 4, UNTIL, |_, _| {});
    Run { record, machine }
}

pub(super) fn figures() -> Vec<Figure> {
    let (global, weighted) = (run(Mode::Global), run(Mode::Weighted));
    let lines = |run: &Run, title: &str| Part::held(title, run.record.lines(&FOUR[..3]));
    let late = |run: &Run, at| run.record.mean(at, MADE, UNTIL);
    let peak = |run: &Run, at: usize| {
        let held = run.record.held[at].iter().map(|(_, mib)| *mib);
        held.fold(0.0, f64::max)
    };
    let nine = Figure {
        name: "DoubleDecker, figure 9",
        title: "Shares of a 3 GiB store among web server, proxy and mail",
        parts: vec![
            lines(&global, "(a) Global"),
            lines(&weighted, "(b) DDMem, equal weights"),
            Part::Missing(
                "(c) DDSSD is not simulated here: the simulator's SSD tier has the speed of a common \
                 NVMe device, not of the paper's SSD",
            ),
        ],
        compared: vec![
            Compared::new("Webserver, DDMem", "MiB", 800.0, late(&weighted, 0)).within(TWICE),
            Compared::new("Mail, Global: at most", "MiB", 400.0, peak(&global, 2)).within(TWICE),
            Compared::new("Mail, Global, late", "MiB", None, late(&global, 2)),
            Compared::new("Mail, DDMem", "MiB", None, late(&weighted, 2)),
            Compared::new("Proxycache, DDMem", "MiB", None, late(&weighted, 1)),
        ],
        orders: vec![
            Order {
                what: "the web server's share".into(),
                places: vec![
                    Place::new("DDMem", None, late(&weighted, 0)),
                    Place::new("Global", None, late(&global, 0)),
                ],
            },
            Order {
                what: "the mail server's share".into(),
                places: vec![
                    Place::new("DDMem", None, late(&weighted, 2)),
                    Place::new("Global", None, late(&global, 2)),
                ],
            },
        ],
        note: "Sizes of the file sets are memory and store that the paper's text gives each \
               container; the division between them is a result."
            .into(),
    };
    let ten = Figure {
        name: "DoubleDecker, figure 10",
        title: "The video server's share in the same runs",
        parts: vec![
            Part::held(
                "Videoserver",
                named(
                    &["Global", "DDMem"],
                    [&global, &weighted].map(|run| run.record.held[3].clone()),
                ),
            ),
            Part::Missing(
                "DDSSD is not simulated here: the simulator's SSD tier has the speed of a common \
                 NVMe device, not of the paper's SSD",
            ),
        ],
        compared: vec![
            Compared::new("Global, late", "MiB", 1_400.0, late(&global, 3)).within(TWICE),
            Compared::new("DDMem, late", "MiB", 1_200.0, late(&weighted, 3)).within(TWICE),
        ],
        orders: vec![Order {
            what: "the video server's share".into(),
            places: vec![
                Place::new("Global", None, late(&global, 3)),
                Place::new("DDMem", None, late(&weighted, 3)),
            ],
        }],
        note: format!(
            "At most {:.0} MiB with Global; the paper says up to 3 GB.",
            peak(&global, 3)
        ),
    };
    vec![nine, ten, table(&global, &weighted)]
}

/// A third of the time in which throughputs are measured, in seconds.
const THIRD: u64 = (UNTIL - MADE) / 3;

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
    let speed = |run: &Run, at| run.record.rate(at, MADE, UNTIL).megabytes;
    let gain = |at| speed(weighted, at) / speed(global, at).max(0.001);
    let paper = |at: usize| PAPER[at][1][0] / PAPER[at][0][0];
    let mut compared = Vec::new();
    for (at, name) in FOUR.iter().enumerate() {
        let what = format!("{name}: DDMem by Global");
        compared.push(Compared::new(what, "times", paper(at), gain(at)).within(Band::Gain));
    }
    for (at, name) in FOUR.iter().enumerate() {
        for (mode, (run, label)) in [(global, "Global"), (weighted, "DDMem")]
            .into_iter()
            .enumerate()
        {
            let rate = run.record.rate(at, MADE, UNTIL);
            let [megabytes, latency, ratio, evictions] = PAPER[at][mode];
            let what = |kind: &str| format!("{name}, {label}: {kind}");
            let evicted = match evictions {
                0.0 => Band::AtMost,
                _ => Band::Shown,
            };
            let ours = evicted_pages(&run.machine, at);
            compared.extend([
                Compared::new(what("throughput"), "MB/s", megabytes, rate.megabytes),
                Compared::new(what("latency"), "ms", latency, rate.latency_ms),
                Compared::new(
                    what("lookups to stores"),
                    "%",
                    ratio,
                    lookup_to_store(&run.machine, at),
                ),
                Compared::new(what("evictions"), "pages", evictions, ours).within(evicted),
            ]);
        }
    }
    let evictions = FOUR.iter().enumerate().flat_map(|(at, name)| {
        let told = |(label, run, paper): (&str, &Run, f64)| {
            let [ours, paper] = [evicted_pages(&run.machine, at), paper].map(|is| is / 1_000.0);
            format!("{name}, {label} {ours:.0} (paper {paper:.0})")
        };
        let [first, second] = PAPER[at];
        [("Global", global, first[3]), ("DDMem", weighted, second[3])].map(told)
    });
    let evictions: Vec<String> = evictions.collect();
    let bars = FOUR.iter().enumerate();
    let bars = bars.map(|(at, name)| (name.to_string(), gain(at), Some(paper(at))));
    let others = (1..FOUR.len()).map(gain).fold(f64::MIN, f64::max);
    let mut orders = vec![Order {
        what: "gains, the web server and the best of the others".into(),
        places: vec![
            Place::new(FOUR[0], None, gain(0)),
            Place::new("others", None, others),
        ],
    }];
    orders.extend(FOUR.iter().enumerate().map(|(at, name)| {
        let [global, weighted] = [speed(global, at), speed(weighted, at)];
        let places = [
            Place::new("Global", PAPER[at][0][0], global),
            Place::new("DDMem", PAPER[at][1][0], weighted),
        ];
        Order::by_paper(format!("modes, {name}, in MB/s"), places)
    }));
    Figure {
        name: "DoubleDecker, table 2",
        title: "Throughput with DDMem by throughput with Global",
        parts: vec![
            Part::bars("DDMem / Global", "times", bars.collect()),
            Part::Missing(
                "DDSSD is not simulated here: the simulator's SSD tier has the speed of a common \
                 NVMe device, not of the paper's SSD",
            ),
        ],
        compared,
        orders,
        note: format!(
            "The web server reads {:.1} files of 16 KiB a second from the disk with Global, and \
             {:.1} with DDMem. With Global it recovers as its files come back from the disk: \
             {:.1} MB/s in the first third of the time, {:.1} MB/s in the last, so that the gain \
             depends on how long it is measured. The size of a video and the length of the run were \
             chosen by the counts of evictions, which in thousands of pages are: {}.",
            global.record.rate(0, MADE, UNTIL).disk,
            weighted.record.rate(0, MADE, UNTIL).disk,
            global.record.rate(0, MADE, MADE + THIRD).megabytes,
            global.record.rate(0, UNTIL - THIRD, UNTIL).megabytes,
            evictions.join(", "),
        ),
    }
}
