// SPDX-License-Identifier: GPL-2.0-only

//! Finds out what the daemon would change, without changing it.

use crate::{
    keeper::rule,
    report::{Rule, show_weights, table},
    runtime::Paths,
};
use anyhow::{Result, anyhow};
use ddabi::genl::AUTOMATIC;
use ddconf::size::show_pages;
use ddnl::{Device, HostControl};
use ddvm::{
    Config, Vmm,
    ssd::{self, Listed},
    tier,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// Changes that the daemon would make.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct DryRun {
    /// The sizes of the tier that would be changed.
    pub sizes: Vec<SizeChange>,
    /// The devices that the file lists.
    pub devices: Vec<DeviceChange>,
    /// The registered VMs.
    pub vms: Vec<VmChange>,
}

/// A size of the tier, in pages.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct SizeChange {
    /// Its name.
    pub size: &'static str,
    /// Its current value.
    pub pages: u64,
    /// The value that it would get.
    pub new_pages: u64,
}

/// A device that the file lists.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct DeviceChange {
    /// Its path.
    pub path: String,
    /// The change.
    pub fate: DeviceOutcome,
}

/// The change that a device would undergo.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceOutcome {
    /// It would stay as it is.
    Kept,
    /// Its write budget would change from the first to the second number of pages in a second; 0
    /// means no limit.
    Budget(u64, u64),
    /// It would be added to the SSD tier.
    Added,
    /// It would be added as soon as it exists.
    Absent,
    /// It would not be added, for a reason.
    Refused(String),
}

/// A registered VM.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
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

/// Finds out what a configuration would change at a module.
pub fn run(config: &Config, host: &mut dyn HostControl, paths: &Paths) -> Result<DryRun> {
    let status = host.status()?;
    let proc = &paths.proc;
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
        ("keep-free", status.keep_free, chosen(sizes.keep_free)),
        (
            "promote-free",
            status.promote_free,
            chosen(sizes.promote_free),
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
    let present = host.devices()?;
    let devices = config.ssd.devices.iter().map(|listed| DeviceChange {
        path: listed.path.clone(),
        fate: fate(listed, &present, paths),
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
    Ok(DryRun {
        sizes: sizes.collect(),
        devices: devices.collect(),
        vms: vms.collect(),
    })
}

/// Returns a threshold, unless the module chooses it, so that it is not known in advance.
fn chosen(threshold: Option<u64>) -> Option<u64> {
    threshold.filter(|pages| *pages != AUTOMATIC)
}

fn fate(listed: &Listed, present: &[Device], paths: &Paths) -> DeviceOutcome {
    let path = paths.device(&listed.path);
    let is_it = |device: &&Device| ssd::is_same(&paths.device(&device.path), &path);
    match present.iter().find(is_it) {
        Some(device) => {
            let old = device.stats.write_budget;
            let new = listed.write_budget;
            let new = new.map(|rate| rate.pages(device.stats.places));
            match new.filter(|new| *new != old) {
                Some(new) => DeviceOutcome::Budget(old, new),
                None => DeviceOutcome::Kept,
            }
        }
        None if !path.exists() => DeviceOutcome::Absent,
        None => match ssd::has_data(&path) {
            Ok(false) => DeviceOutcome::Added,
            Ok(true) => DeviceOutcome::Refused("it contains data".into()),
            Err(error) => DeviceOutcome::Refused(format!("it cannot be read: {error}")),
        },
    }
}

/// For people.
impl fmt::Display for DeviceOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let budget = |pages: u64| match pages {
            0 => "unlimited".into(),
            _ => format!("{} a second", show_pages(pages)),
        };
        match self {
            Self::Kept => f.write_str("is in the SSD tier and would stay as it is"),
            Self::Budget(old, new) => write!(
                f,
                "write budget {} would become {}",
                budget(*old),
                budget(*new)
            ),
            Self::Added => f.write_str("would be added to the SSD tier"),
            Self::Absent => f.write_str("does not exist, and would be added when it does"),
            Self::Refused(reason) => write!(f, "would not be added: {reason}"),
        }
    }
}

/// For people.
impl fmt::Display for DryRun {
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
        for DeviceChange { path, fate } in &self.devices {
            writeln!(f, "{path}: {fate}")?;
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
