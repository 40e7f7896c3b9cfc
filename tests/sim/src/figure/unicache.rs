// SPDX-License-Identifier: GPL-2.0

//! UniCache: replacement (figure 6) and partitioning (figure 7), as far as weights and best effort.

use super::record::Record;
use super::{Compared, Figure, Part};
use crate::host::Mode;
use crate::machine::{Container, Machine};
use crate::parameters::{
    CLOUDSTONE_SET_MIB, KEY_VALUE, MS, THINK, UNICACHE_LIMIT_MIB, VIDEO_MIB, WIKIPEDIA_SET_MIB,
};
use crate::workload::Workload;
use crate::workload::filebench::Video;
use crate::workload::keyvalue::KeyValue;
use ddcore::policy::Policy;

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

/// The three VMs on 100 MiB.
fn run(mode: Mode, policy: Policy, which: &[usize]) -> (Machine, Record, Vec<Vec<(f64, f64)>>) {
    let mut machine = Machine::new(100, mode);
    let alone = which.len() == 1;
    for (at, (workload, threads, start_s)) in loads().into_iter().enumerate() {
        let vm = machine.host().add_vm(100);
        if which.contains(&at) {
            machine.add(Container {
                vm,
                limit_mib: UNICACHE_LIMIT_MIB,
                weight: 100,
                policy,
                processors: 1,
                threads,
                start_s: if alone { 0 } else { start_s },
                workload,
            });
        }
    }
    let mut record = Record::default();
    record.run(&mut machine, which.len(), 600, |_, _| {});
    let misses = (0..which.len()).map(|at| {
        let steps = (20..=600).step_by(20);
        steps
            .map(|second| {
                (
                    second as f64,
                    record.rate(at, second - 20, second).miss_ratio,
                )
            })
            .collect()
    });
    let misses = misses.collect();
    (machine, record, misses)
}

pub(super) fn figures() -> Vec<Figure> {
    vec![six(), seven()]
}

fn six() -> Figure {
    let policies = [Policy::Fifo, Policy::Tinylfu, Policy::Mru, Policy::Adaptive];
    let mut parts = Vec::new();
    let mut compared = Vec::new();
    for at in [0, 2] {
        let rate = |policy| {
            let (_, record, _) = run(Mode::Weighted, policy, &[at]);
            record.rate(0, 300, 600)
        };
        let base = rate(Policy::Fifo);
        let mut bars = Vec::new();
        for policy in policies {
            let ours = base.latency_ms / rate(policy).latency_ms.max(0.000_1);
            bars.push((policy.name().to_string(), ours, None));
            let what = format!("{}, {} by fifo", NAMES[at], policy.name());
            compared.push(Compared::new(what, "times as fast", None, ours));
        }
        parts.push(Part::Bars {
            title: format!("{}: speed by that of fifo (LRU)", NAMES[at]),
            y: "times",
            bars,
        });
    }
    parts.push(Part::Missing(
        "UniCache's scores by recovery time and size need values with a cost; pages have none",
    ));
    Figure {
        name: "UniCache, figure 6",
        title: "Replacement, for a key-value load and for videos",
        parts,
        compared,
        note: "UniCache compares scores by recovery time and size, which pages do not have, so only \
               our own policies are shown. Its best is 10 % ahead of LRU for Wikipedia, and for \
               videos nothing beats random eviction.",
    }
}

fn seven() -> Figure {
    let runs = [
        (
            "(a) best effort",
            run(Mode::Global, Policy::Fifo, &[0, 1, 2]),
        ),
        ("(b) weights", run(Mode::Weighted, Policy::Fifo, &[0, 1, 2])),
    ];
    let mut parts = Vec::new();
    for (name, (_, record, misses)) in &runs {
        parts.push(Part::Lines {
            title: format!("{name}: sizes"),
            x: "seconds",
            y: "MiB in the store",
            lines: record.lines(&NAMES, &[0, 1, 2]),
        });
        parts.push(Part::Lines {
            title: format!("{name}: misses"),
            x: "seconds",
            y: "part of the store's reads",
            lines: NAMES
                .iter()
                .map(|name| name.to_string())
                .zip(misses.clone())
                .collect(),
        });
    }
    parts.push(Part::Missing(
        "(c) performance-aware partitioning needs SLA control",
    ));
    let [(_, best), (_, weights)] = &runs;
    let late = |run: &Record, at| run.mean(at, 500, 600);
    let slower = |at: usize, run: &Record| run.rate(at, 500, 600).latency_ms;
    Figure {
        name: "UniCache, figure 7",
        title: "100 MiB for three VMs that start one after the other",
        compared: vec![
            Compared::new("Video server, best effort", "MiB", None, late(&best.1, 2)),
            Compared::new(
                "Video server, weights: a third",
                "MiB",
                100.0 / 3.0,
                late(&weights.1, 2),
            ),
            Compared::new(
                "CloudStone, weights: a third",
                "MiB",
                100.0 / 3.0,
                late(&weights.1, 1),
            ),
            Compared::new(
                "Wikipedia, best effort by weights (table I)",
                "times as slow",
                84.0 / 36.0,
                slower(0, &best.1) / slower(0, &weights.1),
            ),
            Compared::new(
                "CloudStone, best effort by weights (table I)",
                "times as slow",
                30.0,
                slower(1, &best.1) / slower(1, &weights.1),
            ),
            Compared::new(
                "Video server, best effort by weights (table I)",
                "times as slow",
                4.0 / 7.0,
                slower(2, &best.1) / slower(2, &weights.1),
            ),
        ],
        parts,
        note: "Sizes behave as there. Response times do not: recovering a CloudStone query takes \
               seconds of database work there, and one disk access here.",
    }
}
