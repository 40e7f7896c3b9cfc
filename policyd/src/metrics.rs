// SPDX-License-Identifier: GPL-2.0-only

//! The report as metrics for Prometheus. `docs/users/metrics.md` lists them.

mod containers;
mod goals;
mod guest;

use crate::engine::Report;
use dddaemon::exposition::{Labels, Page};
use ddnl::{GuestStatus, Pool, printable};
use serde::Serialize;

/// The most containers on the page. It is bounded because users can create any number of them.
const MAX_CONTAINERS: usize = 1024;

/// State that the daemon publishes: the report, and counters for Prometheus.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Shown {
    /// The report.
    #[serde(flatten)]
    pub report: Report,
    /// Counters of the module; absent without a module, and if metrics are not served.
    #[serde(skip)]
    pub guest: Option<GuestFigures>,
}

/// Status and pools of a guest's module.
#[derive(Clone, Debug)]
pub struct GuestFigures {
    /// Status of the module.
    pub status: GuestStatus,
    /// All pools.
    pub pools: Vec<Pool>,
}

/// Writes the page.
pub fn page(shown: &Shown, page: &mut Page) {
    machine(&shown.report, page);
    containers::write(shown, page);
    if let Some(guest) = &shown.guest {
        guest::write(&guest.status, page);
    }
}

fn machine(report: &Report, page: &mut Page) {
    let none = Labels::default();
    let memory = &report.memory;
    let version = none.with("version", env!("CARGO_PKG_VERSION"));
    page.info("policyd_build_info", "Version of the daemon")
        .add(&version, true);
    page.gauge(
        "policyd_module_loaded",
        "Whether the guest module is loaded",
    )
    .add(&none, report.module);
    page.gauge("policyd_store_bytes", "This VM's share of the host's store")
        .add_known(&none, report.store_bytes);
    page.gauge(
        "policyd_targets_feasible",
        "Whether all targets can be met; absent if there are none",
    )
    .add_known(&none, report.feasible);
    page.gauge("policyd_memory_total_bytes", "Memory of this VM")
        .add(&none, memory.total_bytes);
    page.gauge(
        "policyd_memory_available_bytes",
        "Memory of this VM that is available without swapping",
    )
    .add(&none, memory.available_bytes);
    page.gauge(
        "policyd_memory_pressure_ratio",
        "Part of the time in which some task of this VM waited for memory",
    )
    .add_known(
        &none,
        memory.pressure_percent.map(|percent| percent / 100.0),
    );
    page.counter(
        "policyd_reclaimed_bytes_total",
        "Memory reclaimed from containers under pressure",
    )
    .add(&none, memory.reclaimed_bytes);
    page.counter(
        "policyd_offloaded_bytes_total",
        "Cold pages of files offloaded to the host",
    )
    .add(&none, memory.offloaded_bytes);
}

fn labels(name: &str, cgroup: &str) -> Labels {
    let labels = Labels::default().with("container", &printable(name));
    labels.with("cgroup", &printable(cgroup))
}
