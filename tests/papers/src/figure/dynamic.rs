// SPDX-License-Identifier: GPL-2.0-only

//! DoubleDecker, section 5.3: weights and capacity that change (figures 13 and 14).

use super::record::{Record, named};
use super::{Compared, Figure, Part};
use crate::goal::OFF;
use ddcore::policy::Policy;
use ddsim::host::Mode;
use ddsim::machine::{Container, Machine};
use ddsim::parameters::{
    LARGE_VIDEO_MIB, PACE, PACED_THREADS, PROXY_SET_MIB, PROXY_THREADS, SATA, SATA_MIB,
    UNITS_PER_MIB, VIDEO_MIB, VIDEO_THREADS, WEB_SET_MIB, WEB_THREADS,
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
    machine.set_ssd(SATA_MIB, SATA);
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
            0 => [(60, 0), (40, 0), (0, 0)],
            900 => [(50, 0), (30, 0), (20, 0)],
            1_800 => [(60, 0), (40, 0), (0, 100)],
            _ => return,
        };
        for (at, (memory, ssd)) in weights.into_iter().enumerate() {
            machine.weigh(at, memory, ssd);
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
            (2_200, 2_400, 1_024.0, &[0.6, 0.4, 0.0]),
        ],
    );
    let off = distance(&compared);
    let on_ssd = named(&names[2..], [record.on_ssd[2].clone()]);
    Figure {
        name: "DoubleDecker, figure 13",
        title: "Weights that change, among containers; a store of 1 GiB",
        parts: vec![
            Part::held(
                "Memory: 60:40, from 900 s 50:30:20, from 1800 s 60:40",
                record.lines(&names),
            ),
            Part::held("SSD: container 3 from 1800 s", on_ssd),
        ],
        compared,
        orders: Vec::new(),
        note: format!(
            "Container 3 moves to the SSD at 1800 s, where it holds {:.0} MiB from 2200 s on, which \
             the paper does not show. The paper's MB are taken as parts of its store of 1 GB. {off}",
            record.mean_on_ssd(2, 2_200, 2_400),
        ),
    }
}

/// Number of VM3 and of its container in the machine.
const THREE: usize = 3;

fn fourteen() -> Figure {
    let mut machine = Machine::new(2_048, Mode::Weighted);
    machine.set_ssd(SATA_MIB, SATA);
    // VM3 is the last, because the others are those of the paper's plot.
    for start in [0, 600, 1_800, 1_200] {
        let vm = machine.host().add_vm(0);
        let video = Box::new(Video::paced(LARGE_VIDEO_MIB, PACE));
        let mut container = container(vm, start, PACED_THREADS, video);
        // A VM of 4 GiB, less its kernel.
        container.limit_mib = 3_840;
        machine.add(container);
    }
    machine.host().set_vm_ssd_weight(THREE, 100);
    machine.weigh(THREE, 0, 100);
    let mut record = Record::default();
    record.run(&mut machine, 4, 2_700, |machine, second| {
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
    let names = ["VM1", "VM2", "VM4", "VM3"];
    let compared = shares(
        &record,
        &names,
        &[
            (500, 600, 2_048.0, &[1.0]),
            (1_500, 1_800, 2_048.0, &[0.6, 0.4]),
            (2_400, 2_700, 4_096.0, &[0.4, 0.35, 0.25, 0.0]),
        ],
    );
    let off = distance(&compared);
    let on_ssd = named(&names[THREE..], [record.on_ssd[THREE].clone()]);
    Figure {
        name: "DoubleDecker, figure 14",
        title: "VMs that come, weights and capacity that change",
        parts: vec![
            Part::held(
                "Memory: 2 GiB, from 1800 s 4 GiB",
                record.lines(&names[..THREE]),
            ),
            Part::held("SSD: VM3 from 1200 s", on_ssd),
        ],
        compared,
        orders: Vec::new(),
        note: format!(
            "VM3 has the SSD only, and holds {:.0} MiB there from 2400 s on, which the paper does not \
             show. {off}",
            record.mean_on_ssd(THREE, 2_400, 2_700),
        ),
    }
}
