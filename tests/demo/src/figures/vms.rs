// SPDX-License-Identifier: GPL-2.0-only

//! Figure 14: four VMs come one after the other.

use anyhow::Result;
use ddlab::{Lab, Throttle};
use ddload::{Load, Profile};

use super::{
    Experiment,
    experiment::Settled,
    paper::{Paper, scaled},
};
use ddreport::chart::Panel;

use crate::{
    ddctl,
    plan::{ContainerPlan, HostSettings, VmPlan},
    recorder::{Observer, Recorder},
    recording::{Recording, Share},
    report::shares,
    site::{self, PAPER, Vm},
};

/// Capacity of the first phases, in the paper and here. The last phase has twice as much in both.
const PAPER_MIB: u64 = 2_048;
const CAPACITY_MIB: u64 = 24;
const MORE_CAPACITY_MIB: u64 = 2 * CAPACITY_MIB;
const DISK: Throttle = Throttle {
    iops: Some(1000),
    bytes_per_s: Some(100_000_000),
};
const NAMES: [&str; 4] = ["vm1", "vm2", "vm3", "vm4"];
const ONE: &str = "vm1";
const TWO: &str = "60 : 40";
const THREE: &str = "vm3 without cache";
const FOUR: &str = "40 : 35 : 25";
/// The phases, with the VMs that have a weight in them.
const PHASES: [Settled; 4] = [
    Settled {
        phase: ONE,
        store_mib: CAPACITY_MIB,
        parts: &[("vm1", 1.0)],
    },
    Settled {
        phase: TWO,
        store_mib: CAPACITY_MIB,
        parts: &[("vm1", 0.6), ("vm2", 0.4)],
    },
    Settled {
        phase: THREE,
        store_mib: CAPACITY_MIB,
        parts: &[("vm1", 0.6), ("vm2", 0.4)],
    },
    Settled {
        phase: FOUR,
        store_mib: MORE_CAPACITY_MIB,
        parts: &[("vm1", 0.4), ("vm2", 0.35), ("vm4", 0.25)],
    },
];

pub(super) fn run(lab: &Lab, observer: Box<dyn Observer>) -> Result<Experiment> {
    site::load_host(lab.host(), CAPACITY_MIB)?;
    ddctl::run(lab.host(), "set-capacity --batch 128K")?;
    let recording = perform(lab, observer)?;
    let (targets, compared) = Settled::judge(&PHASES, &recording, find);
    Ok(Experiment {
        title: "Figure 14: VMs come, and weights and capacity follow",
        lead: format!(
            "Four VMs with a video server each. The cache has {CAPACITY_MIB} MiB, and \
             {MORE_CAPACITY_MIB} MiB from the fourth on; the third VM uses none of it (the paper \
             gives it the SSD store). {}",
            scaled(PAPER_MIB, CAPACITY_MIB)
        ),
        targets,
        paper: Paper::new((PAPER_MIB, CAPACITY_MIB), compared),
        recording,
        panels,
    })
}

fn perform(lab: &Lab, observer: Box<dyn Observer>) -> Result<Recording> {
    let host = lab.host();
    let set = |vm: &str, weight: u32| ddctl::run(host, &format!("set-weight {vm} {weight}"));
    let mut vms = vec![boot(lab, NAMES[0])?];
    let mut recorder = Recorder::start(host, observer)?;
    recorder.host_is_loaded();
    recorder.phase(ONE, true);
    recorder.join(vms[0].start_loads(&[])?);
    recorder.record(20.0)?;

    recorder.phase(TWO, true);
    vms.push(boot(lab, NAMES[1])?);
    recorder.change("vm2 starts; weights 60, 40");
    set("vm1", 60)?;
    set("vm2", 40)?;
    recorder.join(vms[1].start_loads(&[])?);
    recorder.record(25.0)?;

    recorder.phase(THREE, true);
    vms.push(boot(lab, NAMES[2])?);
    recorder.change("vm3 starts, with weight 0");
    set("vm3", 0)?;
    recorder.join(vms[2].start_loads(&[])?);
    recorder.record(20.0)?;

    recorder.phase(FOUR, true);
    vms.push(boot(lab, NAMES[3])?);
    recorder.change(format!(
        "vm4 starts; capacity {MORE_CAPACITY_MIB} MiB, weights 40, 35, 25"
    ));
    ddctl::run(host, &format!("set-capacity {MORE_CAPACITY_MIB}M"))?;
    set("vm1", 40)?;
    set("vm2", 35)?;
    set("vm4", 25)?;
    recorder.join(vms[3].start_loads(&[])?);
    recorder.record(35.0)?;
    recorder.finish()
}

fn boot(lab: &Lab, name: &'static str) -> Result<Vm> {
    let plan = VmPlan {
        name,
        memory_mib: 256,
        vcpus: 1,
        disk: DISK,
        host_settings: HostSettings::default(),
        containers: vec![ContainerPlan {
            name: "video",
            memory_mib: 12,
            load: |dir| Load::new(Profile::Video, dir).rate(32.0).threads(4),
        }],
    };
    let mut vms = site::boot(lab, &[plan])?;
    let vm = vms.remove(0);
    vm.attach()?;
    vm.enrol(PAPER, &[("video", 100)])?;
    Ok(vm)
}

fn find<'a>(recording: &'a Recording, name: &str) -> Option<&'a [Share]> {
    Some(&recording.vm(name)?.shares)
}

fn tracks(recording: &Recording) -> impl Iterator<Item = (&str, &[Share])> {
    recording
        .vms
        .iter()
        .map(|vm| (vm.name.as_str(), vm.shares.as_slice()))
}

fn panels(recording: &Recording) -> Vec<Panel> {
    let title = "cache of each VM (MiB)";
    vec![shares(recording, title, 300.0, tracks(recording))]
}
