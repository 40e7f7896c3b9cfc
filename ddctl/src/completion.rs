// SPDX-License-Identifier: GPL-2.0-only

//! Completion of the names of VMs, containers and devices in shells.
//!
//! Shells insert a candidate without quotes, so that a name with other characters than those of
//! [`word::is_plain`] is replaced by the number.

use crate::{
    system::System,
    target::{find_vm, name_vms},
    word,
};
use clap::Command;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use ddnl::HostControl;
use std::{collections::BTreeSet, ffi::OsString};

/// Names of a machine at one time.
#[derive(Clone, Default)]
struct Names {
    /// VMs, by number if the name does not select one.
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
        let pools = pools.unwrap_or_default();
        let containers = pools.iter().map(|pool| word::of_pool(&pools, pool));
        Self {
            containers: sorted(containers),
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
        for name in wanted.iter().filter(|name| word::is_plain(name)) {
            let Ok(vm) = find_vm(&vms, name) else {
                continue;
            };
            let pools = host.pools(Some(vm.vm.id))?;
            let words = pools.iter().map(|pool| word::of_pool(&pools, pool));
            containers.extend(sorted(words.map(|word| format!("{name}/{word}"))));
        }
        Ok(Self {
            vms: sorted(vms.iter().map(|vm| word::of_vm(&vms, vm))),
            containers,
            devices: host.devices()?.iter().map(word::of_device).collect(),
        })
    }
}

fn sorted(words: impl Iterator<Item = String>) -> Vec<String> {
    let words: BTreeSet<String> = words.collect();
    words.into_iter().collect()
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
