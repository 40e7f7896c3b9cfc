// SPDX-License-Identifier: GPL-2.0-only

//! The output of `ddctl --json` on either machine.
#![allow(missing_docs, reason = "`ddctl schema` describes the fields")]

mod counters;

use anyhow::{Context as _, Result};
use serde::{Deserialize, de::DeserializeOwned};

use crate::Machine;
pub use counters::{GuestCounters, HostCounters, PoolStats};

/// The host module.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct Host {
    pub capacity_pages: u64,
    pub limit_pages: u64,
    pub used_pages: u64,
    pub floor_pages: u64,
    pub batch_pages: u32,
    pub mode: String,
    pub vms: u32,
    pub counters: HostCounters,
}

/// The guest module.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct Guest {
    pub state: String,
    pub vm: Option<u32>,
    pub pools: u32,
    pub counters: GuestCounters,
}

/// A VM, with its containers as the host sees them.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct Vm {
    pub id: u32,
    /// Process id of the VMM, while the process exists.
    pub pid: Option<u32>,
    pub name: Option<String>,
    pub weight: u32,
    pub used_pages: u64,
    pub entitlement_pages: u64,
    pub stats: PoolStats,
    pub containers: Vec<Container>,
}

/// A container, from either side.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct Container {
    pub id: u32,
    pub name: String,
    pub weight: u32,
    pub used_pages: u64,
    pub entitlement_pages: u64,
    /// Absent in a guest without a host.
    pub stats: Option<PoolStats>,
}

/// The VMs at one moment.
#[derive(Clone, Debug, Deserialize)]
pub struct Vms {
    pub vms: Vec<Vm>,
    /// The time of the output, if it is one of a series.
    pub time: Option<String>,
}

/// Runs a command of `ddctl` that must succeed.
pub fn run(machine: &Machine, arguments: &str) -> Result<String> {
    machine.exec_ok(format!("ddctl {arguments}").split(' ').map(str::to_owned))
}

/// Runs `ddctl --json` and parses its output.
fn ask<T: DeserializeOwned>(machine: &Machine, arguments: &str) -> Result<T> {
    let text = run(machine, &format!("--json {arguments}"))?;
    serde_json::from_str(&text).with_context(|| format!("ddctl {arguments} printed {text}"))
}

/// Returns the status of the host module.
pub fn host(machine: &Machine) -> Result<Host> {
    #[derive(Deserialize)]
    struct Status {
        host: Host,
    }
    Ok(ask::<Status>(machine, "--host status")?.host)
}

/// Returns the status of the guest module.
pub fn guest(machine: &Machine) -> Result<Guest> {
    #[derive(Deserialize)]
    struct Status {
        guest: Guest,
    }
    Ok(ask::<Status>(machine, "--guest status")?.guest)
}

/// Returns the counters of the guest module.
pub fn counters(machine: &Machine) -> Result<GuestCounters> {
    Ok(guest(machine)?.counters)
}

/// Returns all VMs with their containers, as shown by the host.
pub fn vms(machine: &Machine) -> Result<Vec<Vm>> {
    Ok(ask::<Vms>(machine, "--host stats")?.vms)
}

/// Returns the containers of a guest, as shown by the guest.
pub fn containers(machine: &Machine) -> Result<Vec<Container>> {
    #[derive(Deserialize)]
    struct Stats {
        containers: Vec<Container>,
    }
    Ok(ask::<Stats>(machine, "--guest stats")?.containers)
}

/// Returns policyd's report, and its verdict on each container.
pub fn policy(machine: &Machine) -> Result<(String, Vec<String>)> {
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

/// Returns the bytes of a guest's map and of its containers' histories.
pub fn map_and_history(machine: &Machine) -> Result<u64> {
    #[derive(Deserialize)]
    struct List {
        containers: Vec<Listed>,
    }
    #[derive(Deserialize)]
    struct Listed {
        admission: Admission,
    }
    #[derive(Deserialize)]
    struct Admission {
        history_bytes: u64,
    }
    let list: List = ask(machine, "--guest container list")?;
    let histories = list
        .containers
        .iter()
        .map(|one| one.admission.history_bytes);
    Ok(counters(machine)?.map_bytes + histories.sum::<u64>())
}

/// A point of a container's curve.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
pub struct Point {
    pub pages: u64,
    pub hits: u64,
}

/// Returns the curve of a container in the guest.
pub fn curve(machine: &Machine, container: &str) -> Result<Vec<Point>> {
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
    pub fn container(&self, name: &str) -> Result<&Container> {
        container(&self.containers, name).with_context(|| format!("VM {}", self.id))
    }
}

/// Returns the VM with a guest's name.
pub fn vm<'a>(vms: &'a [Vm], name: &str) -> Result<&'a Vm> {
    vms.iter()
        .find(|vm| vm.name.as_deref() == Some(name))
        .with_context(|| format!("the host has no VM {name}"))
}

/// Returns the container with this name.
pub fn container<'a>(containers: &'a [Container], name: &str) -> Result<&'a Container> {
    let found = containers.iter().find(|one| one.name == name);
    found.with_context(|| format!("there is no container {name}"))
}
