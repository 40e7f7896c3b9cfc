// SPDX-License-Identifier: GPL-2.0-only

//! UniCache: replacement (figure 6) and partitioning (figure 7, table I).

use super::record::{Record, named};
use super::{Compared, Figure, Part};
use crate::control::{Control, Subject};
use ddcore::policy::{Order, Policy};
use ddreport::chart::Line;
use ddsim::host::Mode;
use ddsim::machine::{Container, Machine};
use ddsim::parameters::{
    CLOUDSTONE_RECOVERY, CLOUDSTONE_SET_MIB, KEY_VALUE, MS, THINK, UNICACHE_LIMIT_MIB, VIDEO_MIB,
    WIKIPEDIA_RECOVERY, WIKIPEDIA_SET_MIB,
};
use ddsim::workload::Workload;
use ddsim::workload::filebench::Video;
use ddsim::workload::keyvalue::KeyValue;
use policyd::config::Figure as Target;

const NAMES: [&str; 3] = ["Wikipedia", "CloudStone", "Video server"];

fn loads() -> [(Box<dyn Workload>, usize, u64); 3] {
    let store = |mib, seed| {
        Box::new(KeyValue::of_files(mib, KEY_VALUE, seed).read_slowly(THINK)) as Box<dyn Workload>
    };
    [
        (store(WIKIPEDIA_SET_MIB, 1), 4, 0),
        (store(CLOUDSTONE_SET_MIB, 2), 8, 120),
        (Box::new(Video::paced(VIDEO_MIB, 40 * MS)), 5, 240),
    ]
}

/// Time to recompute missing data; `None` if the disk is read instead.
const RECOVERY: [Option<u64>; 3] = [Some(WIKIPEDIA_RECOVERY), Some(CLOUDSTONE_RECOVERY), None];

/// Size of the store in MiB.
const STORE_MIB: u64 = 100;
const UNTIL: u64 = 600;

/// Response times in milliseconds: best effort, weights, performance-aware (table I).
const PAPER: [[f64; 3]; 3] = [
    [84.0, 36.0, 36.0],
    [12_000.0, 400.0, 170.0],
    [4.0, 7.0, 7.0],
];

struct Run {
    name: &'static str,
    record: Record,
}

impl Run {
    /// Returns the fraction of the store's reads that missed, over time.
    fn misses(&self) -> Vec<Line> {
        let line = |at| {
            let ratio = |second| self.record.rate(at, second - 20, second).miss_ratio;
            let steps = (20..=UNTIL).step_by(20);
            steps.map(|second| (second as f64, ratio(second))).collect()
        };
        named(&NAMES, (0..NAMES.len()).map(line))
    }

    fn late_mib(&self, at: usize) -> f64 {
        self.record.mean(at, 500, UNTIL)
    }

    fn late_ms(&self, at: usize) -> f64 {
        self.record.rate(at, 500, UNTIL).latency_ms
    }
}

fn container(at: usize, vm: usize, policy: Policy) -> Container {
    let (workload, threads, start_s) = loads()
        .into_iter()
        .nth(at)
        .unwrap_or_else(|| unreachable!());
    Container {
        vm,
        limit_mib: UNICACHE_LIMIT_MIB,
        weight: 100,
        policy,
        processors: 1,
        threads,
        start_s,
        workload,
    }
}

/// Runs one of them alone, from the start.
fn alone(policy: Policy, at: usize) -> Record {
    let mut machine = Machine::new(STORE_MIB, Mode::Weighted);
    let vm = machine.host().add_vm(100);
    machine.add(Container {
        start_s: 0,
        ..container(at, vm, policy)
    });
    let mut record = Record::default();
    record.run(&mut machine, 1, UNTIL, |_, _| {});
    record
}

fn add(machine: &mut Machine, at: usize, vm: usize) {
    let number = machine.add(container(at, vm, Policy::Fifo));
    if let Some(time) = RECOVERY[at] {
        machine.recovers_in(number, time);
    }
}

/// Runs the three in separate VMs.
fn apart(name: &'static str, mode: Mode) -> Run {
    let mut machine = Machine::new(STORE_MIB, mode);
    for at in 0..NAMES.len() {
        let vm = machine.host().add_vm(100);
        add(&mut machine, at, vm);
    }
    let mut record = Record::default();
    record.run(&mut machine, NAMES.len(), UNTIL, |_, _| {});
    Run { name, record }
}

/// Returns the target of a container, in milliseconds.
fn promised(at: usize, weights: &Run) -> f64 {
    weights.late_ms(at) * PAPER[at][2] / PAPER[at][1]
}

/// Runs the three as containers of a VM whose policyd has response times as targets: the same
/// fraction of those by weights as performance-aware has in the paper, because machines and loads
/// differ.
fn aware(weights: &Run) -> Run {
    let mut machine = Machine::new(STORE_MIB, Mode::Weighted);
    let vm = machine.host().add_vm(100);
    for at in 0..NAMES.len() {
        add(&mut machine, at, vm);
    }
    machine.sample_curves();
    let default = machine.host().add_pool(vm, 1, Order::Aged);
    let names = ["wikipedia", "cloudstone", "video"];
    let subject = |(at, (_, _, start_s)): (usize, (_, _, u64))| Subject {
        name: names[at],
        promise: (Target::Latency, promised(at, weights)),
        start_s,
        processes_mib: 0,
    };
    let subjects = loads().into_iter().enumerate().map(subject).collect();
    let mut control = Control::new(subjects, STORE_MIB, None, default);
    let mut record = Record::default();
    record.run_with(&mut machine, &mut control, UNTIL);
    Run {
        name: "(c) performance-aware (policyd)",
        record,
    }
}

pub(super) fn figures() -> Vec<Figure> {
    let mut figures = vec![six()];
    figures.extend(partitions());
    figures
}

fn six() -> Figure {
    let policies = [Policy::Fifo, Policy::Tinylfu, Policy::Mru, Policy::Adaptive];
    let mut parts = Vec::new();
    let mut compared = Vec::new();
    let mut bests = Vec::new();
    for at in [0, 2] {
        let rate = |policy| alone(policy, at).rate(0, 300, UNTIL);
        let base = rate(Policy::Fifo);
        let mut bars = Vec::new();
        let mut best = ("", 0.0);
        for policy in policies {
            let ours = base.latency_ms / rate(policy).latency_ms.max(0.000_1);
            bars.push((policy.name().to_string(), ours, None));
            if ours > best.1 {
                best = (policy.name(), ours);
            }
            let what = format!("{}, {} by fifo", NAMES[at], policy.name());
            compared.push(Compared::new(what, "times as fast", None, ours));
        }
        let (name, by) = best;
        let load = ["Wikipedia", "CloudStone", "videos"][at];
        bests.push(match by > 1.0 {
            true => format!("{name} is the best for {load}, {by:.2} times as fast as fifo"),
            false => format!("no policy is faster than fifo for {load}"),
        });
        let title = format!("{}: speed by that of fifo (LRU)", NAMES[at]);
        parts.push(Part::bars(title, "times", bars));
    }
    parts.push(Part::Missing(
        "UniCache's scores by recovery time and size need values with a cost; pages have none",
    ));
    Figure {
        name: "UniCache, figure 6",
        title: "Replacement, for a key-value load and for videos",
        parts,
        compared,
        orders: Vec::new(),
        note: format!(
            "UniCache compares scores by recovery time and size, which pages do not have, so only \
             our own policies are shown. In the paper the best score is 10 % ahead of LRU for \
             Wikipedia, and no score is better than random eviction for videos. Here {}.",
            bests.join(", and ")
        ),
    }
}

fn partitions() -> Vec<Figure> {
    let weights = apart("(b) weights", Mode::Weighted);
    let aware = aware(&weights);
    let runs = [apart("(a) best effort", Mode::Global), weights, aware];
    vec![seven(&runs), table(&runs)]
}

fn seven(runs: &[Run; 3]) -> Figure {
    let mut parts = Vec::new();
    for run in runs {
        let title = format!("{}: sizes", run.name);
        parts.push(Part::held(title, run.record.lines(&NAMES)));
        let title = format!("{}: misses", run.name);
        let y = "part of the store's reads";
        parts.push(Part::lines(title, "seconds", y, run.misses()));
    }
    let [best, weights, aware] = runs;
    let size = |what: &str, paper, ours| Compared::new(what, "MiB", paper, ours);
    let third = Some(STORE_MIB as f64 / 3.0);
    Figure {
        name: "UniCache, figure 7",
        title: "100 MiB for three that start one after the other",
        compared: vec![
            size("Video server, best effort", None, best.late_mib(2)),
            size("Video server, weights: a third", third, weights.late_mib(2)),
            size("CloudStone, weights: a third", third, weights.late_mib(1)),
            size("Wikipedia, performance-aware", None, aware.late_mib(0)),
            size("CloudStone, performance-aware", None, aware.late_mib(1)),
            size("Video server, performance-aware", None, aware.late_mib(2)),
        ],
        parts,
        orders: Vec::new(),
        note: sizes(runs),
    }
}

/// Bars are cut at this multiple of best effort's speed.
const CUT: f64 = 20.0;

fn table(runs: &[Run; 3]) -> Figure {
    let mut compared = Vec::new();
    let mut bars = Vec::new();
    for (at, name) in NAMES.iter().enumerate() {
        for (which, run) in runs.iter().enumerate() {
            let (what, paper) = (format!("{name}, {}", run.name), PAPER[at][which]);
            compared.push(Compared::new(what, "ms", paper, run.late_ms(at)));
        }
        let gain = |times: &dyn Fn(usize) -> f64| (times(0) / times(2).max(0.001)).min(CUT);
        let ours = gain(&|which| runs[which].late_ms(at));
        bars.push((
            name.to_string(),
            ours,
            Some(gain(&|which| PAPER[at][which])),
        ));
    }
    Figure {
        name: "UniCache, table I",
        title: "Response times over the last 100 seconds",
        parts: vec![Part::bars(
            format!("Best effort by performance-aware, cut at {CUT}"),
            "times as fast",
            bars,
        )],
        compared,
        orders: Vec::new(),
        note: times(runs),
    }
}

/// Returns what each run of figure 7 gives the containers, in words.
fn sizes(runs: &[Run; 3]) -> String {
    let [_, weights, aware] = runs;
    let [cloud, video] = [1, 2].map(|at| aware.late_mib(at));
    format!(
        "Performance-aware is policyd's engine here, not UniCache's own rule: the three are \
         containers of one VM, and each is promised the part of its response time by weights that \
         it has in table I. UniCache gives CloudStone more than the video server; here {} has more: \
         CloudStone has {cloud:.1} MiB and the video server {video:.1}, and CloudStone answers in \
         {:.0} ms, by weights in {:.0} ms.",
        if cloud > video {
            "CloudStone"
        } else {
            "the video server"
        },
        aware.late_ms(1),
        weights.late_ms(1),
    )
}

/// Returns what table I shows, in words.
fn times(runs: &[Run; 3]) -> String {
    let [_, weights, aware] = runs;
    let each = |digits: usize, number: &dyn Fn(usize) -> f64| {
        let all = NAMES.iter().enumerate();
        let all = all.map(|(at, name)| format!("{name} {:.digits$}", number(at)));
        all.collect::<Vec<_>>().join(", ")
    };
    format!(
        "UniCache has no targets: its rule makes miss rate times recovery time equal. policyd \
         needs some, and they were chosen with the paper's outcome known: each is promised the \
         part of its response time by weights here that it has by weights in the paper ({}). So \
         this shows what policyd does when it is told, not that it would have told itself the \
         same. In milliseconds: promised {}; reached {}; by weights {}; the paper by weights {}. \
         A request here reads one object, and the guests keep some themselves; CloudStone's \
         anomalies (12 s) are not modelled; a video is read from the disk and not made anew. In \
         MiB of the store, policyd gives {}, and weights give {}.",
        each(3, &|at| PAPER[at][2] / PAPER[at][1]),
        each(1, &|at| promised(at, weights)),
        each(1, &|at| aware.late_ms(at)),
        each(1, &|at| weights.late_ms(at)),
        each(1, &|at| PAPER[at][1]),
        each(1, &|at| aware.late_mib(at)),
        each(1, &|at| weights.late_mib(at)),
    )
}
