// SPDX-License-Identifier: GPL-2.0-only

//! DoubleDecker, section 5.3: weights and capacity that change (figures 13 and 14).

use super::record::Record;
use super::{Compared, Figure, Part};
use crate::goal::OFF;
use ddcore::policy::Policy;
use ddsim::host::Mode;
use ddsim::machine::{Container, Machine};
use ddsim::parameters::{
    LARGE_VIDEO_MIB, PACE, PACED_THREADS, PROXY_SET_MIB, PROXY_THREADS, UNITS_PER_MIB, VIDEO_MIB,
    VIDEO_THREADS, WEB_SET_MIB, WEB_THREADS,
};
use ddsim::workload::Workload;
use ddsim::workload::filebench::{Proxy, Video, Webserver};

pub(super) fn figures() -> Vec<Figure> {
    vec![thirteen(), fourteen()]
}

fn container(vm: usize, start_s: u64, threads: usize, workload: Box<dyn Workload>) -> Container {
    Container {
        vm,
        limit_mib: 1_024,
        weight: 100,
        policy: Policy::Fifo,
        processors: 2,
        threads,
        start_s,
        workload,
    }
}

/// The seconds between which shares are compared, the store's MiB at that time, and the papers'
/// parts.
type Phase<'a> = (u64, u64, f64, &'a [f64]);

/// Returns the parts of the store that the first of the named containers held, beside the paper's.
fn shares(record: &Record, names: &[&str], phases: &[Phase<'_>]) -> Vec<Compared> {
    let mut shares = Vec::new();
    for (from, until, store, papers) in phases {
        for (at, (name, paper)) in names.iter().zip(*papers).enumerate() {
            let what = format!("{name}, {from} to {until} s");
            let ours = record.mean(at, *from, *until) / store;
            shares.push(Compared::new(what, "of the store", *paper, ours).within(OFF));
        }
    }
    shares
}

/// Returns how far the shares are from the paper's, in words.
fn distance(shares: &[Compared]) -> String {
    let off = shares
        .iter()
        .filter_map(|row| Some((row.ours - row.paper?).abs()));
    let most = off.fold(0.0, f64::max);
    format!("A share differs by at most {most:.4} of the store from its weight.")
}

fn thirteen() -> Figure {
    let mut machine = Machine::new(1_024, Mode::Weighted);
    let vm = machine.host().add_vm(100);
    machine.add(container(
        vm,
        0,
        WEB_THREADS,
        Box::new(Webserver::new(WEB_SET_MIB, 1).made_first()),
    ));
    machine.add(container(
        vm,
        0,
        PROXY_THREADS,
        Box::new(Proxy::new(PROXY_SET_MIB, 2).made_first()),
    ));
    machine.add(container(
        vm,
        900,
        VIDEO_THREADS,
        Box::new(Video::endless(VIDEO_MIB)),
    ));
    let mut record = Record::default();
    record.run(&mut machine, 3, 2_400, |machine, second| {
        let weights = match second {
            0 => [60, 40, 0],
            900 => [50, 30, 20],
            1_800 => [60, 40, 0],
            _ => return,
        };
        for (at, weight) in weights.into_iter().enumerate() {
            let pool = machine.pool(at);
            machine.host().set_weight(pool, weight);
        }
    });
    let names = [
        "Container 1 (web)",
        "Container 2 (proxy)",
        "Container 3 (video)",
    ];
    let compared = shares(
        &record,
        &names,
        &[
            (800, 900, 1_024.0, &[0.6, 0.4]),
            (1_400, 1_800, 1_024.0, &[0.5, 0.3, 0.2]),
            (2_200, 2_400, 1_024.0, &[0.6, 0.4]),
        ],
    );
    let off = distance(&compared);
    Figure {
        name: "DoubleDecker, figure 13",
        title: "Weights that change, among containers; a store of 1 GiB",
        parts: vec![Part::held(
            "60:40, from 900 s 50:30:20, from 1800 s 60:40",
            record.lines(&names),
        )],
        compared,
        orders: Vec::new(),
        note: format!(
            "The paper moves container 3 to the SSD at 1800 s; here its weight becomes zero, and it \
             holds {:.0} MiB of the memory tier from 2200 s on. Its MB are taken as parts of its \
             store of 1 GB. {}",
            record.mean(2, 2_200, 2_400),
            off,
        ),
    }
}

fn fourteen() -> Figure {
    let mut machine = Machine::new(2_048, Mode::Weighted);
    let starts = [0, 600, 1_800];
    for start in starts {
        let vm = machine.host().add_vm(0);
        let video = Box::new(Video::paced(LARGE_VIDEO_MIB, PACE));
        let mut container = container(vm, start, PACED_THREADS, video);
        // A VM of 4 GiB, less its kernel.
        container.limit_mib = 3_840;
        machine.add(container);
    }
    let mut record = Record::default();
    record.run(&mut machine, 3, 2_700, |machine, second| {
        let weights = match second {
            0 => [100, 0, 0],
            600 => [60, 40, 0],
            1_800 => {
                machine.host().set_capacity(4_096 * UNITS_PER_MIB);
                [40, 35, 25]
            }
            _ => return,
        };
        for (vm, weight) in weights.into_iter().enumerate() {
            machine.host().set_vm_weight(vm, weight);
        }
    });
    let names = ["VM1", "VM2", "VM4"];
    let compared = shares(
        &record,
        &names,
        &[
            (500, 600, 2_048.0, &[1.0]),
            (1_500, 1_800, 2_048.0, &[0.6, 0.4]),
            (2_400, 2_700, 4_096.0, &[0.4, 0.35, 0.25]),
        ],
    );
    let off = distance(&compared);
    Figure {
        name: "DoubleDecker, figure 14",
        title: "VMs that come, weights and capacity that change",
        parts: vec![
            Part::held("2 GiB, from 1800 s 4 GiB", record.lines(&names)),
            Part::Missing("VM3 uses the SSD tier only; the paper does not show it either"),
        ],
        compared,
        orders: Vec::new(),
        note: format!("VM3 is left out with the SSD. {}", off),
    }
}
