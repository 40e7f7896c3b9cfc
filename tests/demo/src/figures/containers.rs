// SPDX-License-Identifier: GPL-2.0-only

//! Figure 13: two containers, then three, then two again.

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

/// Capacity, in the paper and here.
const PAPER_MIB: u64 = 1_024;
const CAPACITY_MIB: u64 = 24;
/// Only shares matter here, so that the disk fills the cache in seconds.
const FAST: Throttle = Throttle {
    iops: Some(3000),
    bytes_per_s: Some(200_000_000),
};
const TWO: &str = "60 : 40";
const THREE: &str = "50 : 30 : 20";
const AGAIN: &str = "60 : 40 again";
/// The phases, with the containers that have a weight in them.
const PHASES: [Settled; 3] = [
    settled(TWO, &[("web", 0.6), ("proxy", 0.4)]),
    settled(THREE, &[("web", 0.5), ("proxy", 0.3), ("video", 0.2)]),
    settled(AGAIN, &[("web", 0.6), ("proxy", 0.4)]),
];

const fn settled(phase: &'static str, parts: &'static [(&'static str, f64)]) -> Settled {
    Settled {
        phase,
        store_mib: CAPACITY_MIB,
        parts,
    }
}

pub(super) fn run(lab: &Lab, observer: Box<dyn Observer>) -> Result<Experiment> {
    site::load_host(lab.host(), CAPACITY_MIB)?;
    ddctl::run(lab.host(), "set-capacity --batch 128K")?;
    let vms = site::boot(lab, &[plan()])?;
    let recording = perform(lab, &vms[0], observer)?;
    let (targets, compared) = Settled::judge(&PHASES, &recording, find);
    Ok(Experiment {
        title: "Figure 13: weights of containers change while they run",
        lead: format!(
            "{CAPACITY_MIB} MiB of memory store. A video server joins a web server and a proxy; \
             later its pages are no longer kept (the paper moves them to its SSD store). {}",
            scaled(PAPER_MIB, CAPACITY_MIB)
        ),
        targets,
        paper: Paper::new((PAPER_MIB, CAPACITY_MIB), compared),
        recording,
        panels,
    })
}

fn perform(lab: &Lab, vm: &Vm, observer: Box<dyn Observer>) -> Result<Recording> {
    let guest = &vm.guest;
    vm.attach()?;
    vm.enrol(PAPER, &[("web", 60), ("proxy", 40)])?;
    let mut recorder = Recorder::start(lab.host(), observer)?;
    recorder.host_is_loaded();
    recorder.join(vm.start_loads(&["web", "proxy"])?);
    recorder.phase(TWO, true);
    recorder.record(30.0)?;

    let video = vm.start_loads(&["video"])?;
    recorder.phase(THREE, true);
    recorder.change("video server starts; weights 50, 30, 20");
    vm.enrol(PAPER, &[("video", 20)])?;
    ddctl::run(guest, "set-weight web 50")?;
    ddctl::run(guest, "set-weight proxy 30")?;
    recorder.join(video);
    recorder.record(25.0)?;

    recorder.phase(AGAIN, true);
    recorder.change("video server's pages are no longer kept; weights 60, 40");
    ddctl::run(guest, "set-weight video 0")?;
    ddctl::run(guest, "set-weight web 60")?;
    ddctl::run(guest, "set-weight proxy 40")?;
    recorder.record(25.0)?;
    recorder.finish()
}

/// Returns a VM whose three containers all need more than they get.
fn plan() -> VmPlan {
    let container = |name, load| ContainerPlan {
        name,
        memory_mib: 12,
        load,
    };
    VmPlan {
        name: "vm1",
        memory_mib: 512,
        vcpus: 2,
        disk: FAST,
        host_settings: HostSettings::default(),
        containers: vec![
            container("web", |dir| Load::new(Profile::Webserver, dir).files(2_000)),
            container("proxy", |dir| Load::new(Profile::Proxy, dir).files(2_000)),
            container("video", |dir| {
                Load::new(Profile::Video, dir).threads(4).rate(24.0)
            }),
        ],
    }
}

fn find<'a>(recording: &'a Recording, name: &str) -> Option<&'a [Share]> {
    Some(&recording.container(name)?.shares)
}

fn tracks(recording: &Recording) -> impl Iterator<Item = (&str, &[Share])> {
    recording
        .containers
        .iter()
        .map(|track| (track.name.as_str(), track.shares.as_slice()))
}

fn panels(recording: &Recording) -> Vec<Panel> {
    let title = "cache of each container (MiB)";
    vec![shares(recording, title, 300.0, tracks(recording))]
}
