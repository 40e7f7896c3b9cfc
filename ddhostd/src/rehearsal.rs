// SPDX-License-Identifier: GPL-2.0-only

//! What the daemon would do, found out without doing it.

use crate::{
    keeper::rule,
    report::{Rule, show_weights, table},
};
use anyhow::{Result, anyhow};
use ddconf::size::show_pages;
use ddnl::HostControl;
use ddvm::{Config, Vmm, tier};
use serde::Serialize;
use std::{fmt, path::Path};

/// What the daemon would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rehearsal {
    /// The sizes of the tier that would be changed.
    pub sizes: Vec<SizeChange>,
    /// The registered VMs.
    pub vms: Vec<VmChange>,
}

/// A size of the tier, in pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct SizeChange {
    /// Which.
    pub size: &'static str,
    /// What it is.
    pub pages: u64,
    /// What it would be.
    pub new_pages: u64,
}

/// A registered VM.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VmChange {
    /// Its number.
    pub id: u32,
    /// Its names.
    #[serde(flatten)]
    pub vmm: Vmm,
    /// Its weight.
    pub weight: u32,
    /// Its weight in the SSD tier.
    pub ssd_weight: u32,
    /// The weight that it would get.
    pub new_weight: u32,
    /// The weight in the SSD tier that it would get.
    pub new_ssd_weight: u32,
    /// The rule by which it would get it.
    pub rule: Rule,
}

/// Finds out what a configuration would change at a module, given `/proc`.
pub fn rehearse(config: &Config, host: &mut dyn HostControl, proc: &Path) -> Result<Rehearsal> {
    let status = host.status()?;
    let memory = tier::memory(&proc.join("meminfo"))?;
    let sizes = config
        .memory
        .change(memory, Some(status.capacity))
        .map_err(|wrong| anyhow!("{}: {}", wrong.message(), wrong.advice()))?;
    let sizes = [
        ("capacity", status.capacity, sizes.capacity),
        ("floor", status.floor, sizes.floor),
        (
            "eviction-batch",
            status.batch.into(),
            sizes.batch.map(Into::into),
        ),
    ];
    let sizes = sizes.into_iter().filter_map(|(size, pages, new)| {
        let new_pages = new.filter(|new| *new != pages)?;
        Some(SizeChange {
            size,
            pages,
            new_pages,
        })
    });
    let vms = host.vms()?;
    let vmms = Vmm::all(proc, vms.iter().map(|vm| vm.pid));
    let vms = vms.into_iter().zip(vmms).map(|(vm, vmm)| {
        let weights = config.weights(&vmm);
        VmChange {
            id: vm.id,
            weight: vm.weight,
            ssd_weight: vm.ssd_weight,
            new_weight: weights.memory,
            new_ssd_weight: weights.ssd(),
            rule: rule(config, &vmm),
            vmm,
        }
    });
    Ok(Rehearsal {
        sizes: sizes.collect(),
        vms: vms.collect(),
    })
}

/// For people.
impl fmt::Display for Rehearsal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for SizeChange {
            size,
            pages,
            new_pages,
        } in &self.sizes
        {
            let (old, new) = (show_pages(*pages), show_pages(*new_pages));
            writeln!(f, "{size}: {old} would become {new}")?;
        }
        if self.vms.is_empty() {
            return writeln!(f, "No VM is registered");
        }
        let row = |vm: &VmChange| {
            let name = vm.vmm.name.clone();
            [
                vm.id.to_string(),
                name.unwrap_or_else(|| format!("vm{}", vm.id)),
                show_weights(vm.weight, vm.ssd_weight),
                show_weights(vm.new_weight, vm.new_ssd_weight),
                vm.rule.to_string(),
            ]
        };
        let headings = ["ID", "NAME", "WEIGHT", "WOULD BE", "BY"];
        f.write_str(&table(headings, self.vms.iter().map(row)))?;
        for vm in self.vms.iter().filter(|vm| vm.vmm.silent) {
            writeln!(
                f,
                "Warning: the command line, and with it the name, of VM {} could not be read: try \
                 again",
                vm.id
            )?;
        }
        Ok(())
    }
}
