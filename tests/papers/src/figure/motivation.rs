// SPDX-License-Identifier: GPL-2.0-only

//! DoubleDecker, section 2.3: what a cache that knows no containers does (figures 3 and 4), and
//! memory in the VM against memory at the host (figure 5, table 1).

use super::record::{Record, named};
use super::{Compared, Figure, Part};
use crate::verdict::{Band, Order, Place, TWICE};
use ddcore::policy::Policy;
use ddsim::host::Mode;
use ddsim::machine::{Container, Machine};
use ddsim::parameters::{
    COOPERATIVE_WEB_SET_MIB, DOCUMENT, FLOWS, KEY_VALUE, LONE_LIMIT_MIB, LONE_WEB_SET_MIB,
    MONGO_SET_MIB, MYSQL_SET_MIB, REDIS_PLACES, REDIS_SET_MIB, RELATIONAL, UNITS_PER_MIB,
    WEB_ANONYMOUS_MIB, WEB_THREADS,
};
use ddsim::workload::Workload;
use ddsim::workload::filebench::Webserver;
use ddsim::workload::keyvalue::KeyValue;

const UNTIL: u64 = 2_400;
const NAMES: [&str; 2] = ["Container 1 (2 threads)", "Container 2 (3 threads)"];

/// Processors of the VM of figures 3 and 4. The paper pins none of them to a container.
const PROCESSORS: usize = 4;

/// Web servers with these threads, started at these seconds, in one global store of 1 GiB.
fn web(servers: &[(usize, u64)]) -> Record {
    let mut machine = Machine::new(1_024, Mode::Global);
    let vm = machine.host().add_vm(100);
    for (threads, start_s) in servers {
        machine.add(Container {
            vm,
            limit_mib: LONE_LIMIT_MIB - WEB_ANONYMOUS_MIB,
            weight: 50,
            policy: Policy::Fifo,
            processors: PROCESSORS,
            threads: *threads,
            start_s: *start_s,
            workload: Box::new(Webserver::new(LONE_WEB_SET_MIB, *threads as u64).made_first()),
        });
    }
    let mut record = Record::default();
    record.run(&mut machine, servers.len(), UNTIL, |_, _| {});
    record
}

pub(super) fn figures() -> Vec<Figure> {
    vec![three(), four()]
}

pub(super) fn splits() -> Vec<Figure> {
    let splits = Splits::run();
    vec![splits.five(), splits.table()]
}

fn three() -> Figure {
    let runs = [web(&[(2, 0)]), web(&[(3, 0)])];
    let lines = named(&NAMES, runs.iter().map(|run| run.held[0].clone()));
    let full = |run: &Record| run.mean(0, UNTIL - 100, UNTIL);
    Figure {
        name: "DoubleDecker, figure 3",
        title: "A global store of 1 GiB, each web server alone",
        parts: vec![Part::held("Executed separately", lines)],
        compared: vec![
            Compared::new(NAMES[0], "MiB at the end", 1_024.0, full(&runs[0])).within(FULL),
            Compared::new(NAMES[1], "MiB at the end", 1_024.0, full(&runs[1])).within(FULL),
        ],
        orders: Vec::new(),
        note: "Each web server alone has more files than its memory and the store hold.".into(),
    }
}

/// The criterion for a full store, which may lack a batch or two.
const FULL: Band = Band::Within(32.0);

fn four() -> Figure {
    let (together, later) = (web(&[(2, 0), (3, 0)]), web(&[(2, 0), (3, 200)]));
    let share = |run: &Record| run.mean(1, LATE, UNTIL) / run.mean(0, LATE, UNTIL).max(1.0);
    let speed = |at| together.rate(at, LATE, UNTIL).megabytes;
    let gain = speed(1) / speed(0);
    let overtaken = later.held[0]
        .iter()
        .zip(&later.held[1])
        .find(|((second, one), (_, two))| *second > 220.0 && two > one)
        .map_or(UNTIL as f64, |((second, _), _)| *second);
    Figure {
        name: "DoubleDecker, figure 4",
        title: "A global store of 1 GiB, both web servers",
        parts: vec![
            Part::held("(a) Started together", together.lines(&NAMES)),
            Part::held("(b) Container 2 started 200 s later", later.lines(&NAMES)),
        ],
        compared: vec![
            Compared::new(
                "(a) share of 2 by that of 1",
                "times",
                2.0,
                share(&together),
            )
            .within(Band::Gain),
            Compared::new("(a) throughput of 2 by that of 1", "times", 1.8, gain)
                .within(Band::Gain),
            Compared::new("(b) container 2 overtakes", "s", 600.0, overtaken).within(TWICE),
        ],
        orders: vec![Order {
            what: "shares in (a)".into(),
            places: vec![
                Place::new(NAMES[1], None, together.mean(1, LATE, UNTIL)),
                Place::new(NAMES[0], None, together.mean(0, LATE, UNTIL)),
            ],
        }],
        note: format!(
            "Both wait for one disk, which serves requests in their order, so that three threads \
             get {:.2} times as much of it as two; whose pages come back from the store waits less \
             often, which makes its share grow further.",
            together.rate(1, LATE, UNTIL).disk / together.rate(0, LATE, UNTIL).disk
        ),
    }
}

/// Second from which on the shares have settled.
const LATE: u64 = 1_600;

const SPLITS: [(u64, &str); 5] = [
    (2_048, "2:0"),
    (1_536, "1.5:0.5"),
    (1_024, "1:1"),
    (512, "0.5:1.5"),
    (256, "0.25:1.75"),
];

const APPLICATIONS: [&str; 4] = ["Webserver", "MongoDB", "Redis", "MySQL"];

/// The load of an application, and its threads.
fn application(at: usize) -> (Box<dyn Workload>, usize) {
    match at {
        0 => {
            let server = Webserver::new(COOPERATIVE_WEB_SET_MIB, 1).made_first();
            (Box::new(server), WEB_THREADS)
        }
        1 => (
            Box::new(KeyValue::of_files(MONGO_SET_MIB, DOCUMENT, 2).loaded(2)),
            8,
        ),
        2 => (Box::new(redis()), 1),
        _ => (
            Box::new(KeyValue::in_memory(MYSQL_SET_MIB, RELATIONAL, 4).loaded(4)),
            4,
        ),
    }
}

/// Redis, loaded by YCSB.
pub(super) fn redis() -> KeyValue {
    let store = KeyValue::in_memory(REDIS_SET_MIB, KEY_VALUE, 3).loaded(3);
    store.scattered(REDIS_PLACES)
}

/// The result of an application with a split of the memory.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    operations: f64,
    swapped_mib: f64,
    anonymous_mib: f64,
    held_mib: f64,
}

/// Each application with each split.
struct Splits(Vec<Vec<Outcome>>);

impl Splits {
    fn run() -> Self {
        let applications = 0..APPLICATIONS.len();
        Self(
            applications
                .map(|at| SPLITS.map(|(limit, _)| split(at, limit)).into())
                .collect(),
        )
    }

    /// Returns the operations as a multiple of those with all memory in the VM.
    fn by(&self, at: usize, split: usize) -> f64 {
        self.0[at][split].operations / self.0[at][0].operations.max(0.001)
    }

    fn five(&self) -> Figure {
        let line = |(at, name): (usize, &&str)| {
            let points = SPLITS.iter().enumerate();
            let points = points.map(|(which, (limit, _))| (*limit as f64, self.by(at, which)));
            (name.to_string(), points.collect())
        };
        let rate = |at: usize| self.0[at][0].operations;
        let left = APPLICATIONS.iter().enumerate();
        let left = left.map(|(at, name)| format!("{name} {:.2}", self.by(at, 2)));
        let left: Vec<String> = left.collect();
        Figure {
            name: "DoubleDecker, figure 5",
            title: "2 GiB divided between container and store",
            parts: vec![Part::lines(
                "Operations a second, by those with all memory in the VM",
                "MiB in the VM; the rest of 2 GiB at the host",
                "times",
                APPLICATIONS.iter().enumerate().map(line).collect(),
            )],
            compared: vec![
                Compared::new("Webserver, 1:1 by 2:0", "times", 1.0, self.by(0, 2))
                    .within(Band::Gain),
                Compared::new("Webserver, 2:0", "flows/s", 1_000.0, FLOWS * rate(0)).within(TWICE),
                Compared::new("MongoDB, 1:1 by 2:0", "times", 1.0, self.by(1, 2))
                    .within(Band::Gain),
                Compared::new("MongoDB, 2:0", "ops/s", 300.0, rate(1)).within(TWICE),
                Compared::new("Redis, 2:0", "ops/s", 10_406.0, rate(2)).within(TWICE),
                Compared::new("Redis, 1:1 by 2:0", "times", None, self.by(2, 2)),
                Compared::new(
                    "Redis, 0.25:1.75 by 2:0 (a stall)",
                    "times",
                    STALL,
                    self.by(2, 4),
                )
                .within(Band::AtMost),
                Compared::new("MySQL, 1:1 by 2:0 (degraded)", "times", 1.0, self.by(3, 2))
                    .within(Band::AtMost),
            ],
            orders: vec![Order {
                what: "what is left at 1:1".into(),
                places: vec![
                    Place::new(APPLICATIONS[1], None, self.by(1, 2)),
                    Place::new(APPLICATIONS[3], None, self.by(3, 2)),
                    Place::new(APPLICATIONS[2], None, self.by(2, 2)),
                ],
            }],
            note: format!(
                "The paper's plot is read from its text: the web server and MongoDB remain almost \
                 unchanged, Redis and MySQL degrade, and Redis stalls with 256 MiB. With half of the \
                 memory in the VM, these parts of the operations with all of it are left here: {}; \
                 with 256 MiB, {:.4} of Redis'.",
                left.join(", "),
                self.by(2, 4),
            ),
        }
    }

    fn table(&self) -> Figure {
        /// Swap, anonymous memory, store in MB, with 1 GB each.
        const PAPER: [[f64; 3]; 4] = [
            [0.0, 88.9, 1_023.0],
            [0.0, 251.0, 1_023.0],
            [996.0, 1_021.0, 18.5],
            [879.0, 1_013.0, 34.0],
        ];
        let mut compared = Vec::new();
        for (at, (name, [swap, anonymous, held])) in APPLICATIONS.iter().zip(PAPER).enumerate() {
            let is = self.0[at][2];
            let in_memory = swap > 0.0;
            let band = |paper: f64| match in_memory {
                true if paper > 100.0 => TWICE,
                true => Band::AtMost,
                false if paper > 1_000.0 => TWICE,
                false if paper == 0.0 => Band::AtMost,
                // Memory of these servers' own processes is an input.
                false => Band::Shown,
            };
            let row = |what: &str, paper, ours| {
                Compared::new(format!("{name}: {what}"), "MiB", paper, ours).within(band(paper))
            };
            compared.extend([
                row("swapped", swap, is.swapped_mib),
                row("anonymous memory", anonymous, is.anonymous_mib),
                row("store", held, is.held_mib),
            ]);
        }
        Figure {
            name: "DoubleDecker, table 1",
            title: "1 GiB in the VM and 1 GiB at the host",
            parts: Vec::new(),
            compared,
            orders: Vec::new(),
            note: "The sizes of Redis' and MySQL's data are the sums of this table's swap and \
                   memory, so that only the division is a result."
                .into(),
        }
    }
}

/// Part of its throughput below which an application is said to stall.
const STALL: f64 = 0.01;

fn split(at: usize, limit_mib: u64) -> Outcome {
    let mut machine = Machine::new(2_048 - limit_mib, Mode::Weighted);
    let vm = machine.host().add_vm(100);
    let (workload, threads) = application(at);
    let fixed_mib = if at == 0 { WEB_ANONYMOUS_MIB } else { 0 };
    machine.add(Container {
        vm,
        limit_mib: limit_mib - fixed_mib,
        weight: 100,
        policy: Policy::Fifo,
        processors: 1,
        threads,
        start_s: 0,
        workload,
    });
    let mut record = Record::default();
    record.run(&mut machine, 1, 900, |_, _| {});
    let mib = |units: usize| units as f64 / UNITS_PER_MIB as f64;
    Outcome {
        operations: record.rate(0, 600, 900).operations,
        swapped_mib: mib(machine.swapped(0)),
        anonymous_mib: mib(machine.usage(0).anonymous) + fixed_mib as f64,
        held_mib: machine.held_mib(0),
    }
}
