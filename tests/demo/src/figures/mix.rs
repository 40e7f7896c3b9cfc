// SPDX-License-Identifier: GPL-2.0-only

//! Section 5.1: four servers in one VM, with one FIFO for all and with equal
//! weights.

use anyhow::Result;
use ddlab::{Lab, Target};

use super::Experiment;
use ddreport::chart::Panel;

use crate::{
    ddctl,
    demo::servers,
    plan::{DISK, HostSettings, VmPlan, describe},
    recorder::{Observer, Recorder},
    recording::Recording,
    report::{own_share, own_work},
    site::{self, PAPER, Vm},
};

const CAPACITY_MIB: u64 = 32;
const FIFO: &str = "one FIFO for all";
const WEIGHTS: &str = "DoubleDecker, equal weights";
const PHASE_S: f64 = 55.0;
const SETTLED_S: f64 = 12.0;

pub(super) fn run(lab: &Lab, observer: Box<dyn Observer>) -> Result<Experiment> {
    let plan = VmPlan {
        name: "servers",
        memory_mib: 512,
        vcpus: 2,
        disk: DISK,
        host_settings: HostSettings::default(),
        containers: servers(),
    };
    site::load_host(lab.host(), CAPACITY_MIB)?;
    ddctl::run(lab.host(), "set-capacity --batch 128K")?;
    ddctl::run(lab.host(), "mode fifo")?;
    let vms = site::boot(lab, &[plan])?;
    let recording = perform(lab, &vms[0], observer)?;
    Ok(Experiment {
        title: "Web, proxy, mail and video: weights against one FIFO for all",
        lead: format!(
            "Four containers with the shapes of Filebench's servers, {CAPACITY_MIB} MiB of cache, \
             a disk of {}. In one FIFO, the container that reads fastest owns the cache.",
            describe(DISK)
        ),
        targets: targets(&recording),
        recording,
        panels,
    })
}

fn perform(lab: &Lab, vm: &Vm, observer: Box<dyn Observer>) -> Result<Recording> {
    vm.attach()?;
    vm.enrol(
        PAPER,
        &[("web", 25), ("proxy", 25), ("mail", 25), ("video", 25)],
    )?;
    let mut recorder = Recorder::start(lab.host(), observer)?;
    recorder.host_is_loaded();
    recorder.join(vm.start_loads(&[])?);
    recorder.phase(FIFO, false);
    recorder.record(PHASE_S)?;
    recorder.phase(WEIGHTS, true);
    recorder.change("ddctl mode weighted");
    ddctl::run(lab.host(), "mode weighted")?;
    recorder.record(PHASE_S)?;
    recorder.finish()
}

fn targets(recording: &Recording) -> Vec<Target> {
    let factor = |name: &str| {
        let track = recording.container(name)?;
        let rate = |phase: &str| {
            let window = recording.phase(phase)?.settled(SETTLED_S);
            Some(track.over(window).operations_per_s)
        };
        let (fifo, weights) = (rate(FIFO)?, rate(WEIGHTS)?);
        (fifo > 0.0).then(|| weights / fifo)
    };
    let target = |(name, least): (&str, f64)| {
        let what = format!("{name}: requests, weights over one FIFO for all");
        Target::at_least(what, least, factor(name), "x")
    };
    let least = [("web", 5.0), ("proxy", 0.9), ("mail", 0.9), ("video", 0.9)];
    least.into_iter().map(target).collect()
}

fn panels(recording: &Recording) -> Vec<Panel> {
    let numbered = || recording.containers.iter().enumerate();
    let shares = numbered().map(|(number, track)| own_share(recording, track, number));
    let work = numbered().map(|(number, track)| own_work(track, number));
    shares.chain(work).collect()
}
