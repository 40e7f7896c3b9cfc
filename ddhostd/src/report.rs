// SPDX-License-Identifier: GPL-2.0-only

//! The state of the daemon. Its JSON is an interface: see `docs/users/ddhostd.md`.

use crate::{
    disks::Disk,
    keeper::{Keeper, Known, rule},
    metrics::Measured,
};
use comfy_table::{CellAlignment, Table, presets};
use ddabi::pool::PoolStats;
use ddconf::size::show_pages;
use ddnl::{CounterFields, HostStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

/// Counters by their names.
pub type Counters = BTreeMap<String, u64>;

/// The state of the daemon, of the module, and of all VMs.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Report {
    /// Whether all settings of the file are in force.
    pub healthy: bool,
    /// Absolute path of the file.
    pub file: PathBuf,
    /// Reasons why some settings are not in force.
    pub troubles: Vec<String>,
    /// Settings in force that have effects which an administrator may not expect.
    pub warnings: Vec<String>,
    /// How many times the file was read since the daemon started.
    pub loads: u64,
    /// The reason why the file was refused when it was read last; absent if it was not. The
    /// configuration before stays in force.
    pub refused: Option<String>,
    /// The module's memory tier; absent while the module cannot be asked.
    pub tier: Option<Tier>,
    /// The reason why the module cannot be asked.
    pub absent: Option<String>,
    /// The devices that the file lists.
    pub devices: Vec<DeviceReport>,
    /// The registered VMs.
    pub vms: Vec<VmReport>,
    /// Figures for Prometheus only.
    #[serde(skip)]
    pub measured: Arc<Measured>,
}

/// The memory tier.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Tier {
    /// Version of the module.
    pub module_version: Option<String>,
    /// Capacity in pages.
    pub capacity_pages: u64,
    /// Pages that the host can spare now.
    pub limit_pages: u64,
    /// Pages in use.
    pub used_pages: u64,
    /// Pages that the tier keeps when the host runs short of memory.
    pub floor_pages: u64,
    /// The module's counters.
    pub counters: Counters,
}

/// A device that the file lists.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct DeviceReport {
    /// Its path.
    pub path: String,
    /// The module's word for its state; absent while it is not in the SSD tier.
    pub state: Option<String>,
}

/// A registered VM.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct VmReport {
    /// Its number.
    pub id: u32,
    /// Process of its VMM, if that is still running.
    pub pid: Option<u32>,
    /// The user that the process runs as.
    pub uid: Option<u32>,
    /// Its name.
    pub name: Option<String>,
    /// Its uuid.
    pub uuid: Option<String>,
    /// The cgroup of its VMM.
    pub cgroup: Option<String>,
    /// Its weight.
    pub weight: u32,
    /// Its weight in the SSD tier.
    pub ssd_weight: u32,
    /// The weight that the file gives it. If it has another one, that was set by hand.
    pub file_weight: u32,
    /// The weight in the SSD tier that the file gives it.
    pub file_ssd_weight: u32,
    /// The rule of the file.
    pub rule: Rule,
    /// Pages in use.
    pub used_pages: u64,
    /// Pages that it is entitled to.
    pub entitlement_pages: u64,
    /// Sums over its pools.
    pub counters: Counters,
    /// The same, for metrics.
    #[serde(skip)]
    pub stats: PoolStats,
}

/// The rule of the file by which a VM gets its weight.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// An entry.
    Entry {
        /// The line in which it begins.
        line: usize,
        /// Its patterns.
        selector: String,
    },
    /// `default = "allow"`.
    Allow,
    /// `default = "deny"`.
    Deny,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry { line, selector } => write!(f, "line {line}: {selector}"),
            Self::Allow => f.write_str("default = \"allow\""),
            Self::Deny => f.write_str("default = \"deny\""),
        }
    }
}

impl VmReport {
    /// Returns the name of a VM, or `vm` and its number.
    pub fn label(&self) -> String {
        self.name
            .clone()
            .unwrap_or_else(|| format!("vm{}", self.id))
    }
}

/// Returns the VMs that a keeper knows.
pub(crate) fn vms(keeper: &Keeper) -> Vec<VmReport> {
    let report = |(id, known): (&u32, &Known)| {
        let weights = keeper.config().weights(&known.vmm);
        VmReport {
            id: *id,
            pid: Some(known.vm.pid).filter(|pid| *pid != 0),
            uid: known.vmm.uid,
            name: known.vmm.name.clone(),
            uuid: known.vmm.uuid.clone(),
            cgroup: known.vmm.cgroup.clone(),
            weight: known.vm.weight,
            ssd_weight: known.vm.ssd_weight,
            file_weight: weights.memory,
            file_ssd_weight: weights.ssd(),
            rule: rule(keeper.config(), &known.vmm),
            used_pages: known.vm.used,
            entitlement_pages: known.vm.entitlement,
            counters: counters(&known.vm.stats),
            stats: known.vm.stats,
        }
    };
    keeper.vms().iter().map(report).collect()
}

/// Returns the report on a device of the file.
pub(crate) fn device(disk: &Disk) -> DeviceReport {
    DeviceReport {
        path: disk.listed.path.clone(),
        state: disk.word.map(Into::into),
    }
}

/// Returns the memory tier of a module.
pub(crate) fn tier(status: &HostStatus) -> Tier {
    Tier {
        module_version: status.module_version.clone(),
        capacity_pages: status.capacity,
        limit_pages: status.limit,
        used_pages: status.used,
        floor_pages: status.floor,
        counters: counters(&status.counters),
    }
}

fn counters(fields: &impl CounterFields) -> Counters {
    let counters = fields.counters().into_iter();
    counters
        // These have fields of their own.
        .filter(|(name, _)| !["weight", "entitlement", "used"].contains(name))
        .map(|(name, value)| (name.into(), value))
        .collect()
}

/// For people.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tier {
            Some(tier) => writeln!(
                f,
                "Memory tier: {} of {} used, floor {}",
                show_pages(tier.used_pages),
                show_pages(tier.capacity_pages),
                show_pages(tier.floor_pages)
            )?,
            None => {
                let reason = self.absent.as_deref();
                let reason = reason.unwrap_or("the module has not been asked yet");
                writeln!(f, "Memory tier: not known, {reason}")?;
            }
        }
        for device in &self.devices {
            let state = device.state.as_deref();
            let state = state.unwrap_or("not in the SSD tier");
            writeln!(f, "Device {}: {state}", device.path)?;
        }
        if self.vms.is_empty() {
            writeln!(f, "No VM is registered")?;
        } else {
            let row = |vm: &VmReport| {
                let shown = show_weights(vm.weight, vm.ssd_weight);
                let file = show_weights(vm.file_weight, vm.file_ssd_weight);
                let by_hand = match shown == file {
                    true => String::new(),
                    false => format!(", but set by hand (the file says {file})"),
                };
                [
                    vm.id.to_string(),
                    vm.label(),
                    shown,
                    show_pages(vm.used_pages),
                    show_pages(vm.entitlement_pages),
                    format!("{}{by_hand}", vm.rule),
                ]
            };
            let headings = ["ID", "NAME", "WEIGHT", "USED", "ENTITLED", "BY"];
            f.write_str(&table(headings, self.vms.iter().map(row)))?;
        }
        if let Some(refused) = &self.refused {
            writeln!(
                f,
                "The file was refused, and the previous one stays in force:"
            )?;
            writeln!(f, "{refused}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "Warning: {warning}")?;
        }
        for trouble in &self.troubles {
            writeln!(f, "Trouble: {trouble}")?;
        }
        match self.healthy {
            true => writeln!(f, "All settings of the file are in force"),
            false => writeln!(f, "Not all settings of the file are in force"),
        }
    }
}

/// Formats the weights in the memory tier and in the SSD tier, if that is another one.
pub(crate) fn show_weights(memory: u32, ssd: u32) -> String {
    match memory == ssd {
        true => memory.to_string(),
        false => format!("{memory}, SSD {ssd}"),
    }
}

/// Returns a plain table; of its columns, all but the second and the last are numbers.
pub(crate) fn table<const N: usize>(
    headings: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut grid = Table::new();
    grid.load_style(presets::NOTHING);
    grid.set_header(headings);
    for row in rows {
        grid.add_row(row);
    }
    for (index, column) in grid.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index != 1 && index + 1 != N {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    for line in grid.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
