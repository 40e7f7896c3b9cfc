// SPDX-License-Identifier: GPL-2.0-only

//! Completion of the names of VMs, containers and devices in shells.

use crate::{
    system::System,
    target::{NamedVm, find_vm, name_vms, pool_name},
};
use clap::Command;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use ddnl::{HostControl, is_hidden};
use std::{collections::BTreeSet, ffi::OsString};

/// Names of a machine at one time.
#[derive(Clone, Default)]
struct Names {
    /// VMs, without those whose name belongs to several.
    vms: Vec<String>,
    /// Containers of VMs as `VM/CONTAINER`, or containers of a guest.
    containers: Vec<String>,
    /// Devices of the SSD tier.
    devices: Vec<String>,
}

/// Returns the definition of the command line with the names of the VMs, containers and devices of
/// a machine as candidates. Without a module or the permission to ask it there are no names.
///
/// On a host the containers are read of those VMs that one of the words names before a slash.
pub fn completing(system: &dyn System, words: impl IntoIterator<Item = OsString>) -> Command {
    let words = words.into_iter().filter_map(|word| word.into_string().ok());
    let vms = words.filter_map(|word| Some(word.split_once('/')?.0.to_owned()));
    let names = Names::read(system, &vms.collect());
    attach(crate::command(), &names)
}

impl Names {
    fn read(system: &dyn System, wanted: &BTreeSet<String>) -> Self {
        if let Ok(mut host) = system.host() {
            return Self::of_host(system, &mut *host, wanted).unwrap_or_default();
        }
        let pools = system.guest().and_then(|mut guest| guest.pools());
        Self {
            containers: unique(pools.unwrap_or_default().iter().map(pool_name)),
            ..Self::default()
        }
    }

    fn of_host(
        system: &dyn System,
        host: &mut dyn HostControl,
        wanted: &BTreeSet<String>,
    ) -> ddnl::Result<Self> {
        let vms = name_vms(system, host.vms()?);
        let mut containers = Vec::new();
        for name in wanted {
            let Ok(vm) = find_vm(&vms, name) else {
                continue;
            };
            let pools = host.pools(Some(vm.vm.id))?;
            let names = pools
                .iter()
                .map(|pool| format!("{name}/{}", pool_name(pool)));
            containers.extend(unique(names));
        }
        let devices = host.devices()?;
        Ok(Self {
            vms: unique(vms.iter().map(NamedVm::label)),
            containers,
            devices: devices.into_iter().map(|device| device.path).collect(),
        })
    }
}

/// Returns the names that occur only once, and that a shell can show.
fn unique(names: impl Iterator<Item = String>) -> Vec<String> {
    let (mut once, mut again) = (BTreeSet::new(), BTreeSet::new());
    for name in names.filter(|name| !name.contains(is_hidden)) {
        if !once.insert(name.clone()) {
            again.insert(name);
        }
    }
    once.difference(&again).cloned().collect()
}

/// Adds candidates to the arguments that take names, in all verbs.
fn attach(command: Command, names: &Names) -> Command {
    let verb = command.get_name().to_owned();
    let command = command.mut_args(|argument| {
        let value = argument.get_value_names().unwrap_or_default();
        let values = match value.first().map(|name| name.as_str()) {
            Some("VM[/CONTAINER]") => [&names.vms[..], &names.containers].concat(),
            Some("TARGET") if names.vms.is_empty() => names.containers.clone(),
            Some("TARGET") => names.vms.clone(),
            Some("CONTAINER") => names.containers.clone(),
            Some("DEVICE") if verb == "remove" => names.devices.clone(),
            _ => return argument,
        };
        let candidates = move || values.iter().map(CompletionCandidate::new).collect();
        argument.add(ArgValueCandidates::new(candidates))
    });
    command.mut_subcommands(|verb| attach(verb, names))
}
