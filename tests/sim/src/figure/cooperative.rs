// SPDX-License-Identifier: GPL-2.0

//! DoubleDecker, section 5.2.1: partitions from the host alone against both levels (table 4).

use super::record::Record;
use super::{Compared, Figure, Part};
use crate::host::Mode;
use crate::machine::{Container, Machine};
use crate::parameters::{
    DOCUMENT, KEY_VALUE, MONGO_SET_MIB, MYSQL_SET_MIB, REDIS_SET_MIB, RELATIONAL, WEB_SET_MIB,
};
use crate::workload::Workload;
use crate::workload::filebench::Webserver;
use crate::workload::keyvalue::KeyValue;
use ddcore::policy::Policy;

/// Memory in the VM in MiB, and weight at the host: what the paper found in use (last column).
const CENTRAL: [(u64, u32); 4] = [(512, 60), (1_638, 0), (1_843, 0), (2_252, 40)];
const BOTH: [(u64, u32); 4] = [(1_024, 20), (1_946, 0), (2_048, 0), (1_024, 80)];

const NAMES: [&str; 4] = ["MongoDB", "MySQL", "Redis", "Webserver"];

/// Operations a second in the paper: targets, Morai++, DoubleDecker.
const PAPER: [[f64; 3]; 4] = [
    [15.0, 16.9, 25.1],
    [100.0, 48.5, 132.7],
    [5_000.0, 13.0, 11_186.0],
    [900.0, 1_289.0, 988.0],
];

fn run(split: [(u64, u32); 4]) -> [f64; 4] {
    let mut machine = Machine::new(2_048, Mode::Weighted);
    let vm = machine.host().add_vm(100);
    let loads: [(Box<dyn Workload>, usize); 4] = [
        (Box::new(KeyValue::of_files(MONGO_SET_MIB, DOCUMENT, 2)), 4),
        (
            Box::new(KeyValue::in_memory(MYSQL_SET_MIB, RELATIONAL, 4)),
            2,
        ),
        (
            Box::new(KeyValue::in_memory(REDIS_SET_MIB, KEY_VALUE, 3)),
            1,
        ),
        (Box::new(Webserver::new(WEB_SET_MIB, 1)), 8),
    ];
    for ((workload, threads), (limit_mib, weight)) in loads.into_iter().zip(split) {
        machine.add(Container {
            vm,
            limit_mib,
            weight,
            policy: Policy::Fifo,
            processors: 2,
            threads,
            start_s: 0,
            workload,
        });
    }
    let mut record = Record::default();
    record.run(&mut machine, 4, 1_200, |_, _| {});
    [0, 1, 2, 3].map(|at| record.rate(at, 900, 1_200).operations)
}

pub(super) fn figures() -> Vec<Figure> {
    let (central, both) = (run(CENTRAL), run(BOTH));
    let mut compared = Vec::new();
    let mut bars = Vec::new();
    for (at, name) in NAMES.iter().enumerate() {
        let [_, theirs, paper] = PAPER[at];
        compared.push(Compared::new(
            format!("{name}, Morai++"),
            "ops/s",
            theirs,
            central[at],
        ));
        compared.push(Compared::new(
            format!("{name}, DoubleDecker"),
            "ops/s",
            paper,
            both[at],
        ));
        let ours = both[at] / central[at].max(0.001);
        bars.push((name.to_string(), ours, Some(paper / theirs)));
    }
    vec![Figure {
        name: "DoubleDecker, table 4",
        title: "Both levels provisioned, against the host's level alone",
        parts: vec![
            Part::Bars {
                title: "DoubleDecker / Morai++".into(),
                y: "times, cut at 20",
                bars: bars
                    .into_iter()
                    .map(|(name, ours, paper)| {
                        (name, ours.min(20.0), paper.map(|paper| paper.min(20.0)))
                    })
                    .collect(),
            },
            Part::Missing("targets that are met without being told the sizes need SLA control"),
        ],
        compared,
        note: "Memory in the VM is fixed to what the paper measured in use, because what its VM \
               did among containers without limits is not described; Redis swaps less at random \
               here than there and so loses less.",
    }]
}
