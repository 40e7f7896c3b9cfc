// SPDX-License-Identifier: GPL-2.0-only

//! JSON of the verbs of a host.

use super::ContainerReport;
use crate::{commands::stats::hit_ratio, target::NamedVm};
use ddnl::{Device, Vm};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;

/// VMs.
#[derive(JsonSchema, Serialize)]
pub(crate) struct VmsReport {
    /// The VMs in the order of their numbers.
    pub vms: Vec<VmReport>,
}

/// A VM: the numbers of the module, and the names from the command line of its VMM.
#[derive(JsonSchema, Serialize)]
pub(crate) struct VmReport {
    /// Numbers of the module.
    #[serde(flatten)]
    numbers: Vm,
    /// Program of the VMM.
    vmm: Option<String>,
    /// Name of the VM.
    name: Option<String>,
    /// The uuid of the VM.
    uuid: Option<String>,
    /// User that the VMM runs as.
    uid: Option<u32>,
    /// Cgroup of the VMM below the root of cgroup v2.
    cgroup: Option<String>,
    /// Part of the requested pages that were returned; null until a page is requested.
    hit_ratio: Option<f64>,
    /// Containers of the VM; only in statistics.
    #[serde(skip_serializing_if = "Option::is_none")]
    containers: Option<Vec<ContainerReport>>,
}

impl VmReport {
    /// Creates the report of a VM, in statistics with its containers.
    pub(crate) fn new(named: &NamedVm, containers: Option<Vec<ContainerReport>>) -> Self {
        let NamedVm { vm, vmm } = named;
        Self {
            numbers: vm.clone(),
            vmm: vmm.program.clone(),
            name: vmm.name.clone(),
            uuid: vmm.uuid.clone(),
            uid: vmm.uid,
            cgroup: vmm.cgroup.clone(),
            hit_ratio: hit_ratio(&vm.stats),
            containers,
        }
    }
}

/// Sizes of the memory tier after a change.
#[derive(JsonSchema, Serialize)]
pub(crate) struct CapacityReport {
    /// Capacity in pages.
    pub capacity_pages: u64,
    /// Pages that the tier keeps when the host runs short of memory.
    pub floor_pages: u64,
    /// Pages of an eviction batch.
    pub batch_pages: u32,
    /// Pages that are kept free in the background.
    pub keep_free_pages: u64,
    /// Free pages above which pages of the SSD tier are promoted.
    pub promote_free_pages: u64,
    /// Path of the file in which the sizes were saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved: Option<PathBuf>,
}

/// How the memory tier is shared.
#[derive(JsonSchema, Serialize)]
pub(crate) struct ModeReport {
    /// `weighted` or `fifo`.
    pub mode: &'static str,
}

/// A device that was added to the SSD tier or removed from it, in the file of the host as well if
/// that was wanted.
#[derive(JsonSchema, Serialize)]
pub(crate) struct DeviceReport {
    /// Number of the device.
    pub device: u32,
    /// Path of the device.
    pub path: String,
    /// Pages that may be written to it in a second, if `add` set a limit; 0 means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_budget_pages: Option<u64>,
    /// Path of the file in which it was saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved: Option<PathBuf>,
}

/// Devices of the SSD tier.
#[derive(JsonSchema, Serialize)]
pub(crate) struct DevicesReport {
    /// The devices in the order of their numbers.
    pub devices: Vec<Device>,
}

/// Settings of the SSD tier that were changed.
#[derive(Default, JsonSchema, Serialize)]
pub(crate) struct SsdSettingsReport {
    /// Number of the device that the write budget is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// Pages that may be written to it in a second; 0 means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_budget_pages: Option<u64>,
    /// Milliseconds that guests wait for a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u32>,
    /// Where readers wait for a device: `automatic`, `host` or `guest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<&'static str>,
    /// Whether pages that are returned to guests stay on the devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retain: Option<bool>,
    /// Pages that the index may take before pages leave the tier; 0 means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index_limit_pages: Option<u64>,
    /// Path of the file in which they were saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved: Option<PathBuf>,
}
