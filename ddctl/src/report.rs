// SPDX-License-Identifier: GPL-2.0-only

//! JSON of the verbs, as types from which the schema is derived. `docs/users/ddctl.md` describes
//! them.

mod container;
mod host;

pub(crate) use container::{
    AddedReport, ContainerReport, ContainersReport, CurveReport, CurvesReport, PointReport,
    PolicyReport, RemovedReport, StoreReport,
};
pub(crate) use host::{
    CapacityReport, DeviceReport, DevicesReport, ModeReport, SsdSettingsReport, VmReport, VmsReport,
};

use ddnl::{Event, GuestStatus, HostStatus};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;

/// Status of the modules that are loaded.
#[derive(JsonSchema, Serialize)]
pub(crate) struct StatusReport {
    /// The host module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostStatus>,
    /// The guest module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestStatus>,
}

/// An event.
#[derive(JsonSchema, Serialize)]
pub(crate) struct EventReport {
    /// Time at which it was received (RFC 3339).
    pub time: String,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// Statistics: of VMs with their containers on a host, of containers in a guest.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub(crate) enum StatsReport {
    /// On a host.
    Host(VmsReport),
    /// In a guest.
    Guest(ContainersReport),
}

/// Pages that were dropped; null stands for all.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub(crate) enum FlushReport {
    /// On a host.
    Host {
        /// Number of the VM.
        vm: Option<u32>,
        /// Number of the container.
        container: Option<u32>,
    },
    /// In a guest.
    Guest {
        /// Number of the container.
        container: Option<u32>,
    },
}

/// Weights that were set.
#[derive(Default, JsonSchema, Serialize)]
pub(crate) struct WeightsReport {
    /// The weights in the order of the targets.
    pub weights: Vec<WeightReport>,
    /// Path of the file in which they were saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved: Option<PathBuf>,
}

/// A weight that was set.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub(crate) enum WeightReport {
    /// Weight of a VM.
    Vm {
        /// Number of the VM.
        vm: u32,
        /// Its weight.
        weight: u32,
        /// Its weight in the SSD tier, if that was given.
        #[serde(skip_serializing_if = "Option::is_none")]
        ssd_weight: Option<u32>,
    },
    /// Weight that a VM gets when it registers.
    Later {
        /// Name of the VM.
        name: String,
        /// The weight.
        weight: u32,
        /// The weight in the SSD tier, if that was given.
        #[serde(skip_serializing_if = "Option::is_none")]
        ssd_weight: Option<u32>,
    },
    /// Weight of a container.
    Container {
        /// Number of the container.
        container: u32,
        /// Its weight.
        weight: u32,
        /// Its weight in the SSD tier, if that was given.
        #[serde(skip_serializing_if = "Option::is_none")]
        ssd_weight: Option<u32>,
    },
}
