// SPDX-License-Identifier: GPL-2.0-only

//! The demo: one host, two VMs, five containers, and both levels of weights.
//!
//! The loads never stop. First the memory of the cache belongs to the guests' containers; then the
//! modules are loaded, with one FIFO for all. Weights divide the cache, and one FIFO follows again,
//! so that the order does not favour either. Then weights are used with the default policy. A new
//! policy in one VM moves shares between its containers, and the host moves shares between the VMs.

use std::{path::PathBuf, thread};

use anyhow::Result;
use ddlab::{Accel, Artifacts, GUEST_MODULE, HOST_MODULE, Lab, LabConfig, Target, content};
use ddload::{Load, Profile};

use crate::{
    ddctl, figures,
    live::Live,
    outcome::Outcome,
    plan::{ContainerPlan, DISK, HostSettings, VmPlan},
    policy::Policyd,
    recorder::Recorder,
    recording::Recording,
    site::{self, Vm},
    step::step,
};

/// Capacity of the cache, before and after the host's administrator increases it.
pub(crate) const CAPACITY_MIB: u64 = 32;
const MORE_CAPACITY_MIB: u64 = 48;
/// Pages of an eviction batch, smaller by the same factor as all other sizes.
const BATCH: &str = "128K";

/// Names of the phases.
pub(crate) const WITHOUT: &str = "memory of guests";
pub(crate) const FIFO: &str = "one FIFO for all";
pub(crate) const WEIGHTS: &str = "weights alone";
pub(crate) const AGAIN: &str = "one FIFO again";
pub(crate) const DEFAULT: &str = "DoubleDecker";
pub(crate) const POLICY: &str = "new policy";
pub(crate) const HOST: &str = "new weights";

/// Duration of the phases in seconds.
const WITHOUT_S: f64 = 20.0;
/// Duration of the phases that are compared.
const COMPARED_S: f64 = 35.0;
const POLICY_S: f64 = 12.0;
const HOST_S: f64 = 12.0;

/// Weights in the VM with many containers: at first the web server is important, then the proxy
/// gets more.
const FIRST: [(&str, u32); 4] = [("web", 50), ("proxy", 20), ("mail", 10), ("video", 20)];
const SECOND: [(&str, u32); 4] = [("web", 40), ("proxy", 30), ("mail", 10), ("video", 20)];
/// Weights of the VMs.
const VM_WEIGHTS: [(&str, u32); 2] = [("shop", 80), ("warehouse", 20)];
const NEW_VM_WEIGHT: (&str, u32) = ("warehouse", 50);

/// Parameters of the demo.
#[derive(Clone, Debug)]
pub struct Options {
    /// The accelerator of the host machine.
    pub accel: Accel,
    /// Directory for logs and results.
    pub dir: PathBuf,
    /// Whether the paper's experiments follow on the same host.
    pub figures: bool,
}

/// Runs the demo and shows a table while it runs.
///
/// # Errors
///
/// Fails if a machine or a program in one fails. Missed promises are not errors.
pub fn run(artifacts: &Artifacts, options: &Options) -> Result<Outcome> {
    let lab = step("boot the KVM host", || {
        Lab::boot(LabConfig {
            accel: options.accel,
            ..LabConfig::new(artifacts.clone(), &options.dir)
        })
    })?;
    let vms = step("make the disks and boot the VMs", || {
        site::boot(&lab, &plans())
    })?;
    let recording = perform(&lab, &vms)?;
    let content = step("compare content", || compare(&vms[0]))?;
    let unload = step("unload the modules", || unload(&lab, &vms))?;
    drop(vms);
    let mut outcome = Outcome::new(&lab, recording, [content, unload]);
    if options.figures {
        for make in figures::ALL {
            outcome.add(make(&lab, Box::new(Live::new()))?);
            lab.host().unload_module(HOST_MODULE)?;
        }
    }
    Ok(outcome)
}

fn perform(lab: &Lab, vms: &[Vm]) -> Result<Recording> {
    let host = lab.host();
    let containers: usize = vms.iter().map(|vm| vm.plan.containers.len()).sum();
    let more_kib = (CAPACITY_MIB << 10) / containers as u64;
    vms.iter().try_for_each(|vm| vm.limit(more_kib))?;
    let loads = step("start the loads", || {
        let loads = vms.iter().map(|vm| vm.start_loads(&[]));
        let loads: Vec<_> = loads.collect::<Result<_>>()?;
        Ok(loads.into_iter().flatten().collect())
    })?;
    let mut recorder = Recorder::start(host, Box::new(Live::new()))?;
    recorder.join(loads);
    recorder.phase(WITHOUT, false);
    recorder.record(WITHOUT_S)?;

    vms.iter().try_for_each(|vm| vm.limit(0))?;
    recorder.phase(FIFO, false);
    recorder.change(format!(
        "insmod both modules under load; {CAPACITY_MIB} MiB, ddctl mode fifo"
    ));
    site::load_host(host, CAPACITY_MIB)?;
    ddctl::run(host, &format!("set-capacity --batch {BATCH}"))?;
    ddctl::run(host, "mode fifo")?;
    let mut policies = enrol(vms)?;
    vms.iter().try_for_each(|vm| vm.set_policy(site::PAPER))?;
    recorder.host_is_loaded();
    recorder.record(COMPARED_S)?;

    for (vm, weight) in VM_WEIGHTS {
        ddctl::run(host, &format!("set-weight {vm} {weight}"))?;
    }
    recorder.phase(WEIGHTS, true);
    recorder.change("ddctl mode weighted");
    ddctl::run(host, "mode weighted")?;
    recorder.record(COMPARED_S)?;

    recorder.phase(AGAIN, false);
    recorder.change("ddctl mode fifo");
    ddctl::run(host, "mode fifo")?;
    recorder.record(COMPARED_S)?;

    recorder.phase(DEFAULT, true);
    recorder.change("ddctl mode weighted; each container's policy is adaptive");
    ddctl::run(host, "mode weighted")?;
    vms.iter().try_for_each(|vm| vm.set_policy(site::DEFAULT))?;
    recorder.record(COMPARED_S)?;

    recorder.phase(POLICY, true);
    recorder.change(format!("policyd in shop: {}", list(&SECOND)));
    policies[0].reload(&SECOND)?;
    recorder.record(POLICY_S)?;

    recorder.phase(HOST, true);
    let (vm, weight) = NEW_VM_WEIGHT;
    recorder.change(format!(
        "ddctl set-capacity {MORE_CAPACITY_MIB}M; ddctl set-weight {vm} {weight}"
    ));
    ddctl::run(host, &format!("set-capacity {MORE_CAPACITY_MIB}M"))?;
    ddctl::run(host, &format!("set-weight {vm} {weight}"))?;
    recorder.record(HOST_S)?;
    recorder.finish()
}

/// Loads the guest module in all VMs and starts their policy daemons.
fn enrol(vms: &[Vm]) -> Result<Vec<Policyd>> {
    let weights = |vm: &Vm| match vm.plan.containers.len() {
        1 => vec![(vm.plan.containers[0].name, 100)],
        _ => FIRST.to_vec(),
    };
    thread::scope(|scope| {
        let enrolling: Vec<_> = vms
            .iter()
            .map(|vm| {
                scope.spawn(move || {
                    vm.attach()?;
                    Policyd::start(&vm.guest, &weights(vm))
                })
            })
            .collect();
        enrolling
            .into_iter()
            .map(|vm| vm.join().expect("enrolling does not panic"))
            .collect()
    })
}

/// Compares the content of the web server's files with the original.
fn compare(vm: &Vm) -> Result<Target> {
    let name = "web";
    let prefix = format!("{name}/files");
    let made = vm.plan.disk().files;
    let expected = content::tree_digest(&made, &prefix);
    let path = format!("{}/{prefix}", vm.plan.mount_point());
    let sum = vm.guest.read_tree(&path, true, Some(name))?;
    let same = sum.digest.as_deref() == Some(expected.as_str());
    Ok(Target::new(
        "content of the web server's files, read through the cache",
        "every byte as it was made",
        match same {
            true => format!("{} files, {} MiB, the same", sum.files, sum.bytes >> 20),
            false => "another digest".to_owned(),
        },
        same,
    ))
}

/// Unloads the modules, then checks both kernels.
fn unload(lab: &Lab, vms: &[Vm]) -> Result<Target> {
    for vm in vms {
        vm.guest.unload_module(GUEST_MODULE)?;
        vm.guest.check_taint()?;
    }
    lab.host().unload_module(HOST_MODULE)?;
    let complaints = lab.check_consoles(&[]);
    Ok(Target::new(
        "warnings in the kernels' logs",
        "none, on any machine",
        match &complaints {
            Ok(()) => "none".to_owned(),
            Err(error) => format!("{error:#}"),
        },
        complaints.is_ok(),
    ))
}

/// Returns the VMs: a shop of four servers, and a warehouse with a database.
pub(crate) fn plans() -> Vec<VmPlan> {
    vec![
        VmPlan {
            name: "shop",
            memory_mib: 512,
            vcpus: 2,
            disk: DISK,
            host_settings: HostSettings::default(),
            containers: servers(),
        },
        VmPlan {
            name: "warehouse",
            memory_mib: 320,
            vcpus: 1,
            disk: DISK,
            host_settings: HostSettings::default(),
            containers: vec![ContainerPlan {
                name: "db",
                memory_mib: 8,
                load: |dir| {
                    Load::new(Profile::Zipf, dir)
                        .file_size(40 << 20)
                        .threads(2)
                        .rate(30.0)
                },
            }],
        },
    ]
}

/// Returns the four servers of the paper's section 5.1, scaled down.
pub(crate) fn servers() -> Vec<ContainerPlan> {
    let container = |name, load| ContainerPlan {
        name,
        memory_mib: 6,
        load,
    };
    vec![
        container("web", |dir| Load::new(Profile::Webserver, dir).files(700)),
        container("proxy", |dir| {
            Load::new(Profile::Proxy, dir).files(600).threads(1)
        }),
        container("mail", |dir| {
            Load::new(Profile::Mail, dir).files(400).threads(1)
        }),
        container("video", |dir| {
            Load::new(Profile::Video, dir).threads(2).rate(8.0)
        }),
    ]
}

fn list(weights: &[(&str, u32)]) -> String {
    let words: Vec<String> = weights
        .iter()
        .map(|(name, weight)| format!("{name} {weight}"))
        .collect();
    words.join(", ")
}
