// SPDX-License-Identifier: GPL-2.0-only

//! The report as metrics for Prometheus. `docs/users/metrics.md` lists them.

mod host;
mod ssd;
mod vms;

pub(crate) use vms::MAX_VMS;

use crate::{accumulator::Totals, report::Report};
use dddaemon::exposition::Page;
use ddnl::{Device, HostStatus, Pool};
use std::collections::BTreeMap;

/// Figures that only the page shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// The module.
    pub status: Option<HostStatus>,
    /// Devices of the SSD tier.
    pub devices: Vec<Device>,
    /// The containers that are on the page.
    pub containers: Vec<Pool>,
    /// The number of all containers.
    pub container_count: usize,
    /// Sums over the containers of each VM.
    pub totals: BTreeMap<u32, Totals>,
}

/// Writes the page.
pub fn page(report: &Report, page: &mut Page) {
    host::write(report, page);
    ssd::write(&report.measured.devices, page);
    vms::write(report, page);
}
