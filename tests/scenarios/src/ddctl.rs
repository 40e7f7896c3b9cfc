// SPDX-License-Identifier: GPL-2.0-only

//! The output of `ddctl --json` on either machine.

use anyhow::{Context as _, Result};
use ddlab::Machine;
use serde::{Deserialize, de::DeserializeOwned};

use crate::counters::{GuestCounters, HostCounters, PoolStats};

/// The host module.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub(crate) struct Host {
    pub(crate) capacity_pages: u64,
    pub(crate) limit_pages: u64,
    pub(crate) used_pages: u64,
    pub(crate) floor_pages: u64,
    pub(crate) batch_pages: u32,
    pub(crate) mode: String,
    pub(crate) vms: u32,
    pub(crate) counters: HostCounters,
}

/// The guest module.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub(crate) struct Guest {
    pub(crate) state: String,
    pub(crate) vm: Option<u32>,
    pub(crate) pools: u32,
    pub(crate) counters: GuestCounters,
}

/// A VM, with its containers as the host sees them.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub(crate) struct Vm {
    pub(crate) id: u32,
    /// Process id of the VMM, while the process exists.
    pub(crate) pid: Option<u32>,
    pub(crate) name: Option<String>,
    pub(crate) weight: u32,
    pub(crate) used_pages: u64,
    pub(crate) entitlement_pages: u64,
    pub(crate) stats: PoolStats,
    pub(crate) containers: Vec<Container>,
}

/// A container, from either side.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub(crate) struct Container {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) weight: u32,
    pub(crate) used_pages: u64,
    pub(crate) entitlement_pages: u64,
    /// Absent in a guest without a host.
    pub(crate) stats: Option<PoolStats>,
}

/// The VMs at one moment.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Vms {
    pub(crate) vms: Vec<Vm>,
    /// The time of the output, if it is one of a series.
    pub(crate) time: Option<String>,
}

/// Runs a command of `ddctl` that must succeed.
pub(crate) fn run(machine: &Machine, arguments: &str) -> Result<String> {
    machine.exec_ok(format!("ddctl {arguments}").split(' ').map(str::to_owned))
}

/// Runs `ddctl --json` and parses its output.
fn ask<T: DeserializeOwned>(machine: &Machine, arguments: &str) -> Result<T> {
    let text = run(machine, &format!("--json {arguments}"))?;
    serde_json::from_str(&text).with_context(|| format!("ddctl {arguments} printed {text}"))
}

/// Returns the status of the host module.
pub(crate) fn host(machine: &Machine) -> Result<Host> {
    #[derive(Deserialize)]
    struct Status {
        host: Host,
    }
    Ok(ask::<Status>(machine, "--host status")?.host)
}

/// Returns the status of the guest module.
pub(crate) fn guest(machine: &Machine) -> Result<Guest> {
    #[derive(Deserialize)]
    struct Status {
        guest: Guest,
    }
    Ok(ask::<Status>(machine, "--guest status")?.guest)
}

/// Returns the counters of the guest module.
pub(crate) fn counters(machine: &Machine) -> Result<GuestCounters> {
    Ok(guest(machine)?.counters)
}

/// Returns all VMs with their containers, as shown by the host.
pub(crate) fn vms(machine: &Machine) -> Result<Vec<Vm>> {
    Ok(ask::<Vms>(machine, "--host stats")?.vms)
}

/// Returns the containers of a guest, as shown by the guest.
pub(crate) fn containers(machine: &Machine) -> Result<Vec<Container>> {
    #[derive(Deserialize)]
    struct Stats {
        containers: Vec<Container>,
    }
    Ok(ask::<Stats>(machine, "--guest stats")?.containers)
}

/// Returns policyd's report, and its verdict on each container.
pub(crate) fn policy(machine: &Machine) -> Result<(String, Vec<String>)> {
    #[derive(Deserialize)]
    struct Report {
        containers: Vec<Explained>,
    }
    #[derive(Deserialize)]
    struct Explained {
        verdict: String,
    }
    let text = run(machine, "--json policy")?;
    let report: Report =
        serde_json::from_str(&text).with_context(|| format!("ddctl policy printed {text}"))?;
    let verdicts = report.containers.into_iter().map(|one| one.verdict);
    Ok((text, verdicts.collect()))
}

/// A point of a container's curve.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
pub(crate) struct Point {
    pub(crate) pages: u64,
    pub(crate) hits: u64,
}

/// Returns the curve of a container in the guest.
pub(crate) fn curve(machine: &Machine, container: &str) -> Result<Vec<Point>> {
    #[derive(Deserialize)]
    struct Curve {
        points: Vec<Point>,
    }
    #[derive(Deserialize)]
    struct Curves {
        curves: Vec<Curve>,
    }
    let curves: Curves = ask(machine, &format!("--guest stats --curve {container}"))?;
    let found = curves.curves.into_iter().next();
    Ok(found.context("there is no curve")?.points)
}

impl Vm {
    /// Returns one of its containers.
    pub(crate) fn container(&self, name: &str) -> Result<&Container> {
        container(&self.containers, name).with_context(|| format!("VM {}", self.id))
    }
}

/// Returns the VM with a guest's name.
pub(crate) fn vm<'a>(vms: &'a [Vm], name: &str) -> Result<&'a Vm> {
    vms.iter()
        .find(|vm| vm.name.as_deref() == Some(name))
        .with_context(|| format!("the host has no VM {name}"))
}

/// Returns the container with this name.
pub(crate) fn container<'a>(containers: &'a [Container], name: &str) -> Result<&'a Container> {
    let found = containers.iter().find(|one| one.name == name);
    found.with_context(|| format!("there is no container {name}"))
}
