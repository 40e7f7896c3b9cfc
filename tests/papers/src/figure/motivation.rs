// SPDX-License-Identifier: GPL-2.0

//! DoubleDecker, section 2.3: what a cache that knows no containers does (figures 3 and 4), and
//! memory in the VM against memory at the host (figure 5).

use super::record::{Record, named};
use super::{Compared, Figure, Line, Part};
use ddcore::policy::Policy;
use ddsim::host::Mode;
use ddsim::machine::{Container, Machine};
use ddsim::parameters::{
    DOCUMENT, KEY_VALUE, LONE_LIMIT_MIB, LONE_WEB_SET_MIB, MONGO_SET_MIB, MYSQL_SET_MIB,
    REDIS_SET_MIB, RELATIONAL, WEB_ANONYMOUS_MIB, WEB_SET_MIB,
};
use ddsim::workload::Workload;
use ddsim::workload::filebench::Webserver;
use ddsim::workload::keyvalue::KeyValue;

const UNTIL: u64 = 1_000;
const NAMES: [&str; 2] = ["Container 1 (2 threads)", "Container 2 (3 threads)"];

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
            processors: 2,
            threads: *threads,
            start_s: *start_s,
            workload: Box::new(Webserver::new(LONE_WEB_SET_MIB, *threads as u64)),
        });
    }
    let mut record = Record::default();
    record.run(&mut machine, servers.len(), UNTIL, |_, _| {});
    record
}

pub(super) fn figures() -> Vec<Figure> {
    vec![three(), four(), five()]
}

fn part(title: &str, lines: Vec<Line>) -> Part {
    Part::Lines {
        title: title.into(),
        x: "seconds",
        y: "MiB in the store",
        lines,
    }
}

fn three() -> Figure {
    let runs = [web(&[(2, 0)]), web(&[(3, 0)])];
    let lines = named(&NAMES, runs.iter().map(|run| run.held[0].clone()));
    let full = |run: &Record| run.mean(0, UNTIL - 100, UNTIL);
    Figure {
        name: "DoubleDecker, figure 3",
        title: "A global store of 1 GiB, each web server alone",
        parts: vec![part("Executed separately", lines)],
        compared: vec![
            Compared::new(NAMES[0], "MiB at the end", 1_024.0, full(&runs[0])),
            Compared::new(NAMES[1], "MiB at the end", 1_024.0, full(&runs[1])),
        ],
        note: "Each fills the store, as in the paper.",
    }
}

fn four() -> Figure {
    let (together, later) = (web(&[(2, 0), (3, 0)]), web(&[(2, 0), (3, 200)]));
    let share = |run: &Record| run.mean(1, 600, UNTIL) / run.mean(0, 600, UNTIL).max(1.0);
    let speed = |at| together.rate(at, 600, UNTIL).megabytes;
    let overtaken = later.held[0]
        .iter()
        .zip(&later.held[1])
        .find(|((second, one), (_, two))| *second > 220.0 && two > one)
        .map_or(UNTIL as f64, |((second, _), _)| *second);
    Figure {
        name: "DoubleDecker, figure 4",
        title: "A global store of 1 GiB, both web servers",
        parts: vec![
            part("(a) Started together", together.lines(&NAMES)),
            part("(b) Container 2 started 200 s later", later.lines(&NAMES)),
        ],
        compared: vec![
            Compared::new(
                "(a) share of container 2 by that of 1",
                "times",
                2.0,
                share(&together),
            ),
            Compared::new(
                "(a) throughput of 2 by that of 1",
                "times",
                1.8,
                speed(1) / speed(0),
            ),
            Compared::new("(b) container 2 overtakes", "s", 600.0, overtaken),
        ],
        note: "The busier container takes more, as in the paper; in proportion to its threads here \
               (1.5), more than that there, where hits also make the one that has more faster.",
    }
}

const SPLITS: [(u64, &str); 5] = [
    (2_048, "2:0"),
    (1_536, "1.5:0.5"),
    (1_024, "1:1"),
    (512, "0.5:1.5"),
    (256, "0.25:1.75"),
];

fn five() -> Figure {
    type Make = fn() -> Box<dyn Workload>;
    let applications: [(&str, Make, usize); 4] = [
        ("Webserver", || Box::new(Webserver::new(WEB_SET_MIB, 1)), 8),
        (
            "MongoDB",
            || Box::new(KeyValue::of_files(MONGO_SET_MIB, DOCUMENT, 2).loaded(2)),
            8,
        ),
        (
            "Redis",
            || Box::new(KeyValue::in_memory(REDIS_SET_MIB, KEY_VALUE, 3).loaded(3)),
            1,
        ),
        (
            "MySQL",
            || Box::new(KeyValue::in_memory(MYSQL_SET_MIB, RELATIONAL, 4).loaded(4)),
            4,
        ),
    ];
    let mut lines = Vec::new();
    let mut rates = Vec::new();
    for (name, make, threads) in applications {
        let run = |limit: u64| {
            let mut machine = Machine::new(2_048 - limit, Mode::Weighted);
            let vm = machine.host().add_vm(100);
            machine.add(Container {
                vm,
                limit_mib: limit
                    - if name == "Webserver" {
                        WEB_ANONYMOUS_MIB
                    } else {
                        0
                    },
                weight: 100,
                policy: Policy::Fifo,
                processors: 1,
                threads,
                start_s: 0,
                workload: make(),
            });
            let mut record = Record::default();
            record.run(&mut machine, 1, 1_500, |_, _| {});
            record.rate(0, 1_200, 1_500).operations
        };
        let of: Vec<f64> = SPLITS.iter().map(|(limit, _)| run(*limit)).collect();
        let most = of[0].max(0.001);
        let points = of
            .iter()
            .zip(SPLITS)
            .map(|(rate, (limit, _))| (limit as f64, rate / most));
        lines.push((name.to_string(), points.collect()));
        rates.push(of);
    }
    let by = |at: usize, split: usize| rates[at][split] / rates[at][0].max(0.001);
    Figure {
        name: "DoubleDecker, figure 5",
        title: "2 GiB divided between container and store",
        parts: vec![Part::Lines {
            title: "Operations a second, by those with all memory in the VM".into(),
            x: "MiB in the VM; the rest of 2 GiB at the host",
            y: "times",
            lines,
        }],
        compared: vec![
            Compared::new("Webserver, 1:1 by 2:0", "times", 1.0, by(0, 2)),
            Compared::new("MongoDB, 1:1 by 2:0", "times", 1.0, by(1, 2)),
            Compared::new("MongoDB, 2:0", "ops/s", 300.0, rates[1][0]),
            Compared::new("Redis, 2:0", "ops/s", 10_406.0, rates[2][0]),
            Compared::new("Redis, 1:1 by 2:0", "times", None, by(2, 2)),
            Compared::new(
                "Redis, 0.25:1.75 (a stall in the paper)",
                "ops/s",
                0.0,
                rates[2][4],
            ),
            Compared::new("MySQL, 1:1 by 2:0", "times", None, by(3, 2)),
        ],
        note: "Applications over files do not care where their cache is, those with memory of \
               their own fall into swap: Redis by far, MySQL little at an even split, for its \
               processor is busy while others of its clients wait. Ours swaps pages of 16 KiB by \
               Zipf's law and so never comes to a full stall.",
    }
}
