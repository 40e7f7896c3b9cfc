// SPDX-License-Identifier: GPL-2.0-only

//! Metrics of the daemon, of the module and of the memory tier.

use crate::report::Report;
use ddabi::counters::HostCounters;
use dddaemon::{
    exposition::{Labels, Page},
    pools::bytes,
};
use ddnl::HostStatus;

pub(super) fn write(report: &Report, page: &mut Page) {
    let none = Labels::default();
    let version = none.with("version", env!("CARGO_PKG_VERSION"));
    page.info("ddhostd_build_info", "Version of the daemon")
        .add(&version, true);
    page.gauge(
        "ddhostd_healthy",
        "Whether all settings of the file are in force",
    )
    .add(&none, report.healthy);
    page.gauge(
        "ddhostd_config_refused",
        "Whether the file was refused when it was read last",
    )
    .add(&none, report.refused.is_some());
    page.counter(
        "ddhostd_config_loads_total",
        "How many times the file was read",
    )
    .add(&none, report.loads);
    page.gauge("ddhostd_module_loaded", "Whether the host module answers")
        .add(&none, report.measured.status.is_some());
    page.gauge("ddhostd_vms", "Registered VMs")
        .add(&none, report.vms.len() as u64);
    if let Some(status) = &report.measured.status {
        tier(status, page);
        counters(&status.counters, page);
    }
}

fn tier(status: &HostStatus, page: &mut Page) {
    let none = Labels::default();
    let version = status.module_version.as_deref().unwrap_or_default();
    page.info("ddhostd_module_info", "Version of the host module")
        .add(&none.with("version", version), true);
    for (name, help, pages) in [
        (
            "ddhostd_memory_capacity_bytes",
            "Capacity of the memory tier",
            status.capacity,
        ),
        (
            "ddhostd_memory_limit_bytes",
            "Part of the capacity that the host can spare now",
            status.limit,
        ),
        (
            "ddhostd_memory_used_bytes",
            "Cached pages in the memory tier",
            status.used,
        ),
        (
            "ddhostd_memory_floor_bytes",
            "Part of the memory tier that is kept when the host runs short of memory",
            status.floor,
        ),
        (
            "ddhostd_memory_keep_free_bytes",
            "Room that is kept free in the background",
            status.keep_free,
        ),
        (
            "ddhostd_index_limit_bytes",
            "Memory that the index may take before pages leave the SSD tier; 0 without a limit",
            status.index_limit,
        ),
        (
            "ddhostd_memory_promote_free_bytes",
            "Free room above which pages of the SSD tier are promoted",
            status.promote_free,
        ),
    ] {
        page.gauge(name, help).add(&none, bytes(pages));
    }
    page.gauge(
        "ddhostd_ssd_deadline_seconds",
        "How long a get may wait for a device of the SSD tier",
    )
    .add(&none, f64::from(status.deadline) / 1e6);
}

fn counters(counters: &HostCounters, page: &mut Page) {
    // There is no `..`, so that a new counter does not compile until it has a metric.
    let HostCounters {
        calls,
        refused_invalid,
        refused_user,
        refused_unsupported,
        refused_session,
        refused_rollback,
        retries,
        refused_fault,
        refused_absent,
        refused_limit,
        refused_memory,
        dirty_tracked,
        gets_deferred,
        vms_came,
        vms_went,
        eviction_batches,
        evicted,
        demoted,
        promoted,
        shrunk,
        shrink_refused,
        notices_lost,
        events_dropped,
        index_bytes,
    } = *counters;
    let none = Labels::default();
    page.gauge("ddhostd_index_bytes", "Memory of the index")
        .add(&none, index_bytes);
    let mut refused = page.counter(
        "ddhostd_hypercalls_refused_total",
        "Hypercalls that were refused, by reason",
    );
    for (reason, count) in [
        ("invalid", refused_invalid),
        ("user", refused_user),
        ("unsupported", refused_unsupported),
        ("session", refused_session),
        ("rollback", refused_rollback),
        ("fault", refused_fault),
        ("absent", refused_absent),
        ("limit", refused_limit),
        ("memory", refused_memory),
    ] {
        refused.add(&none.with("reason", reason), count);
    }
    for (name, help, count) in [
        ("ddhostd_hypercalls_total", "Hypercalls received", calls),
        (
            "ddhostd_hypercalls_retried_total",
            "Hypercalls answered with Retry: overtaken by a later call",
            retries,
        ),
        (
            "ddhostd_gets_dirty_tracked_total",
            "Gets answered with misses because KVM tracked dirty pages",
            dirty_tracked,
        ),
        (
            "ddhostd_gets_deferred_total",
            "Gets whose readers slept in their guests while pages of the SSD tier were read",
            gets_deferred,
        ),
        (
            "ddhostd_vms_registered_total",
            "VMs that registered",
            vms_came,
        ),
        (
            "ddhostd_vms_departed_total",
            "VMs whose registration ended",
            vms_went,
        ),
        (
            "ddhostd_eviction_batches_total",
            "Eviction batches",
            eviction_batches,
        ),
        (
            "ddhostd_evicted_bytes_total",
            "Pages evicted to make room",
            bytes(evicted),
        ),
        (
            "ddhostd_demoted_bytes_total",
            "Pages moved from the memory tier to the SSD tier",
            bytes(demoted),
        ),
        (
            "ddhostd_promoted_bytes_total",
            "Pages moved from the SSD tier to the memory tier",
            bytes(promoted),
        ),
        (
            "ddhostd_shrunk_bytes_total",
            "Pages given back to the kernel when the host ran short of memory",
            bytes(shrunk),
        ),
        (
            "ddhostd_shrinks_refused_total",
            "Calls of the shrinker that freed no page although VMs held pages above the floor",
            shrink_refused,
        ),
        (
            "ddhostd_eviction_notices_lost_total",
            "Eviction notices that found no room",
            notices_lost,
        ),
        (
            "ddhostd_events_dropped_total",
            "Events that were not sent because a VM caused too many",
            events_dropped,
        ),
    ] {
        page.counter(name, help).add(&none, count);
    }
}
