// SPDX-License-Identifier: GPL-2.0-only

//! Draws how a tier is divided, as the demo's report does, from a simulation: the decisions are
//! those of the host module, and the loads and the disk are a model.

use ddcore::policy::Policy;
use ddreport::{
    chart::{Band, GREY, Mark, Panel, Series, Style, Timeline, colour},
    picture,
};
use ddsim::{
    host::Mode,
    machine::{Container, Machine},
    workload::filebench::Webserver,
};

const CAPACITY_MIB: u64 = 96;
/// Files of a container, and the memory of its guest that it may use.
const FILES_MIB: u64 = 256;
const LIMIT_MIB: u64 = 32;
/// The times at which the VM `mail` starts to read, and gets another weight, and the end.
const START_S: u64 = 200;
const CHANGE_S: u64 = 400;
const END_S: u64 = 600;
/// Seconds between two points.
const STEP_S: u64 = 4;
/// Containers with their VM and their weight. The VMs begin with the weights 200 and 100.
const CONTAINERS: [(&str, usize, u32); 3] = [
    ("web / shop", 0, 300),
    ("web / blog", 0, 100),
    ("mail / imap", 1, 100),
];
const WEIGHTS: [u32; 2] = [200, 100];
const NEW_WEIGHT: u32 = 400;

/// Returns MiB of each container at each time.
fn simulate() -> Vec<Vec<(f64, f64)>> {
    let mut machine = Machine::new(CAPACITY_MIB, Mode::Weighted);
    let vms = WEIGHTS.map(|weight| machine.host().add_vm(weight));
    for (seed, (_, vm, weight)) in (1..).zip(CONTAINERS) {
        machine.add(Container {
            vm: vms[vm],
            limit_mib: LIMIT_MIB,
            weight,
            policy: Policy::Fifo,
            processors: 1,
            threads: 4,
            start_s: if vm == 1 { START_S } else { 0 },
            workload: Box::new(Webserver::new(FILES_MIB, seed).made_first()),
        });
    }
    let mut held = vec![Vec::new(); CONTAINERS.len()];
    for second in (0..=END_S).step_by(STEP_S as usize) {
        if second == CHANGE_S {
            machine.host().set_vm_weight(vms[1], NEW_WEIGHT);
        }
        machine.run(second);
        for (number, points) in held.iter_mut().enumerate() {
            points.push((second as f64, machine.held_mib(number)));
        }
    }
    held
}

/// Returns the entitlement of a container in MiB, by the definition in the glossary.
fn entitlement(number: usize, second: u64) -> f64 {
    let (_, vm, weight) = CONTAINERS[number];
    let mut vms = WEIGHTS;
    if second >= CHANGE_S {
        vms[1] = NEW_WEIGHT;
    }
    let within = CONTAINERS.iter().filter(|one| one.1 == vm).map(|one| one.2);
    let of_vm = CAPACITY_MIB as f64 * f64::from(vms[vm]) / f64::from(vms.iter().sum::<u32>());
    of_vm * f64::from(weight) / f64::from(within.sum::<u32>())
}

/// Returns the mean of a container over the last 40 seconds before a time.
fn settled(points: &[(f64, f64)], until: u64) -> f64 {
    let last = points.iter().filter(|point| point.0 <= until as f64);
    let last: Vec<f64> = last.rev().take(10).map(|point| point.1).collect();
    last.iter().sum::<f64>() / last.len() as f64
}

#[test]
fn a_picture_shows_lent_memory_and_entitlements() {
    let held = simulate();
    // Without the other VM, the tier belongs to both containers of the first one.
    let lent = settled(&held[0], START_S) + settled(&held[1], START_S);
    assert!(lent > CAPACITY_MIB as f64 * 0.9, "{lent}");
    for (number, points) in held.iter().enumerate() {
        for time in [CHANGE_S - STEP_S, END_S] {
            let (is, due) = (settled(points, time), entitlement(number, time));
            assert!(
                (is - due).abs() < 3.0,
                "{number} at {time} s: {is}, not {due}"
            );
        }
    }
    let panel = |(number, points): (usize, Vec<(f64, f64)>)| {
        let due = (0..=END_S).step_by(STEP_S as usize);
        let due = due.map(|second| (second as f64, entitlement(number, second)));
        let series = |colour, style, part| Series {
            label: String::new(),
            colour,
            style,
            parts: vec![part],
        };
        Panel {
            title: format!("{} (MiB; dashed: entitlement)", CONTAINERS[number].0),
            height: 74.0,
            max: None,
            series: vec![
                series(colour(number), Style::Area, points),
                series(GREY, Style::Steps, due.collect()),
            ],
            labels: false,
        }
    };
    let band = |name: &str, from: u64, to: u64| Band {
        name: name.to_owned(),
        from: from as f64,
        to: to as f64,
    };
    let mark = |(number, second)| Mark {
        number,
        at: second as f64,
    };
    let timeline = Timeline {
        about: format!(
            "A tier of {CAPACITY_MIB} MiB, divided between three containers (simulated)"
        ),
        seconds: END_S as f64,
        bands: vec![
            band("mail is idle and lends its share", 0, START_S),
            band("all read more than their share", START_S, CHANGE_S),
            band("mail has a larger weight", CHANGE_S, END_S),
        ],
        marks: [(1, START_S), (2, CHANGE_S)].map(mark).into(),
        panels: held.into_iter().enumerate().map(panel).collect(),
    };
    let changes = [
        "mail starts to read files".to_owned(),
        format!("ddctl set-weight mail {NEW_WEIGHT}"),
    ];
    picture::assert("shares.svg", &timeline.file(&changes));
}
