// SPDX-License-Identifier: GPL-2.0-only

//! Section 5.1: four servers in one VM, with one FIFO for all and with equal weights. The FIFO runs
//! first and last, so that neither has the colder cache on average.

use anyhow::Result;
use ddlab::{Lab, Target};

use super::{
    Experiment,
    paper::{Compared, Paper, scaled},
};
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

/// Capacity, in the paper and here.
const PAPER_MIB: u64 = 3_072;
const CAPACITY_MIB: u64 = 32;
/// The phases of each mode.
const FIFO: [&str; 2] = ["one FIFO for all", "one FIFO again"];
const WEIGHTS: [&str; 2] = ["DoubleDecker, equal weights", "equal weights again"];
/// The containers, with the least gain from weights, and the paper's.
const GAINS: [(&str, f64, f64); 4] = [
    ("web", 5.0, 93.7 / 14.2),
    ("proxy", 0.9, 5.6 / 5.4),
    ("mail", 0.9, 1.4 / 1.3),
    ("video", 0.9, 1_188.0 / 1_276.0),
];
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
             a disk of {}. In one FIFO, the container that reads fastest owns the cache. {}",
            describe(DISK),
            scaled(PAPER_MIB, CAPACITY_MIB)
        ),
        targets: targets(&recording),
        paper: Paper::new((PAPER_MIB, CAPACITY_MIB), compared(&recording)),
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
    recorder.phase(FIFO[0], false);
    recorder.record(PHASE_S)?;
    recorder.phase(WEIGHTS[0], true);
    recorder.change("ddctl mode weighted");
    ddctl::run(lab.host(), "mode weighted")?;
    recorder.record(PHASE_S)?;
    recorder.phase(WEIGHTS[1], true);
    recorder.record(PHASE_S)?;
    recorder.phase(FIFO[1], false);
    recorder.change("ddctl mode fifo");
    ddctl::run(lab.host(), "mode fifo")?;
    recorder.record(PHASE_S)?;
    recorder.finish()
}

/// Returns the requests of a container with weights for each with one FIFO. Both ran twice, and
/// their means are used.
fn gain(recording: &Recording, name: &str) -> Option<f64> {
    let track = recording.container(name)?;
    let rate = |phase: &str| {
        let window = recording.phase(phase)?.settled(SETTLED_S);
        Some(track.over(window).operations_per_s)
    };
    let mean = |[first, second]: [&str; 2]| Some((rate(first)? + rate(second)?) / 2.0);
    let (fifo, weights) = (mean(FIFO)?, mean(WEIGHTS)?);
    (fifo > 0.0).then(|| weights / fifo)
}

fn targets(recording: &Recording) -> Vec<Target> {
    let target = |(name, least, _): (&str, f64, f64)| {
        let what = format!("{name}: requests, weights over one FIFO for all");
        Target::at_least(what, least, gain(recording, name), "x")
    };
    GAINS.into_iter().map(target).collect()
}

fn compared(recording: &Recording) -> Vec<Compared> {
    let compare = |(name, _, paper): (&str, f64, f64)| {
        let what = format!("{name}: weights over one FIFO for all");
        Compared::gain(what, paper, gain(recording, name))
    };
    GAINS.into_iter().map(compare).collect()
}

fn panels(recording: &Recording) -> Vec<Panel> {
    let numbered = || recording.containers.iter().enumerate();
    let shares = numbered().map(|(number, track)| own_share(recording, track, number));
    let work = numbered().map(|(number, track)| own_work(track, number));
    shares.chain(work).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Phase, sample};

    #[test]
    fn both_runs_of_a_mode_count() {
        // The web server has 60 requests a second until 41 s, 120 of them from 26 to 33 s, then
        // 600.
        let mut recording = sample();
        let phase = |name: &str, from, to| Phase {
            name: name.to_owned(),
            weighted: false,
            from,
            to,
        };
        recording.phases = vec![
            phase(FIFO[0], 0.0, 20.0),
            phase(WEIGHTS[0], 50.0, 60.0),
            phase(WEIGHTS[1], 60.0, 70.0),
        ];
        assert_eq!(gain(&recording, "web"), None);
        recording.phases.push(phase(FIFO[1], 25.0, 33.0));
        assert_eq!(gain(&recording, "web"), Some(600.0 / 90.0));
        let met = |recording: &Recording| {
            let targets = targets(recording);
            targets.iter().filter(|target| target.met).count()
        };
        assert_eq!(met(&Recording::default()), 0);
        assert!(met(&recording) >= 1);
    }
}
