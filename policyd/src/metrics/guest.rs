// SPDX-License-Identifier: GPL-2.0-only

//! Metrics of the guest module.

use ddabi::{counters::GuestCounters, genl::LinkState};
use dddaemon::{
    exposition::{Labels, Page},
    pools::bytes,
};
use ddnl::GuestStatus;

pub(super) fn write(status: &GuestStatus, page: &mut Page) {
    let none = Labels::default();
    let version = status.module_version.as_deref().unwrap_or_default();
    page.info("policyd_module_info", "Version of the guest module")
        .add(&none.with("version", version), true);
    page.gauge(
        "policyd_host_attached",
        "Whether the VM is attached to a host",
    )
    .add(&none, status.state == LinkState::Attached);
    page.gauge(
        "policyd_pools",
        "Pools of the VM, the default pool included",
    )
    .add(&none, status.pools);
    counters(&status.counters, page);
}

fn counters(counters: &GuestCounters, page: &mut Page) {
    // There is no `..`, so that a new counter does not compile until it has a metric.
    let GuestCounters {
        calls,
        put_calls,
        get_calls,
        flush_calls,
        retries,
        stale,
        sessions,
        put_offered,
        put_stored,
        put_retained,
        put_skipped_mapping,
        put_skipped_page,
        put_skipped_io,
        put_skipped_busy,
        put_skipped_map,
        put_skipped_slots,
        put_skipped_off,
        put_skipped_policy,
        put_skipped_throttle,
        put_refused,
        read_absent,
        get_asked,
        get_hits,
        get_misses,
        changes,
        invalidated,
        evicted,
        map_dropped,
        map_files,
        map_pages,
        map_bytes,
        flushes_waiting,
        get_latency,
        put_latency,
    } = counters;
    let none = Labels::default();
    let help = "Hypercalls of each kind, retries included";
    let mut family = page.counter("policyd_hypercalls_by_kind_total", help);
    for (kind, count) in [
        ("put", put_calls),
        ("get", get_calls),
        ("flush", flush_calls),
    ] {
        family.add(&none.with("kind", kind), *count);
    }
    let help = "Pages that were not offered to the host, by reason";
    let mut family = page.counter("policyd_put_skipped_bytes_total", help);
    for (reason, pages) in [
        ("retained", put_retained),
        ("mapping", put_skipped_mapping),
        ("page", put_skipped_page),
        ("io", put_skipped_io),
        ("busy", put_skipped_busy),
        ("map", put_skipped_map),
        ("slots", put_skipped_slots),
        ("off", put_skipped_off),
        ("policy", put_skipped_policy),
        ("throttle", put_skipped_throttle),
    ] {
        family.add(&none.with("reason", reason), bytes(*pages));
    }
    for (name, help, count) in [
        (
            "policyd_hypercalls_total",
            "Hypercalls of any kind, retries included",
            *calls,
        ),
        (
            "policyd_hypercalls_retried_total",
            "Hypercalls that the host answered with Retry",
            *retries,
        ),
        (
            "policyd_hypercalls_stale_total",
            "Hypercalls that the host answered with Stale",
            *stale,
        ),
        ("policyd_sessions_total", "Sessions with a host", *sessions),
        (
            "policyd_put_offered_bytes_total",
            "Clean pages that were reclaimed and offered to the host",
            bytes(*put_offered),
        ),
        (
            "policyd_put_bytes_total",
            "Pages that the host confirmed to have stored",
            bytes(*put_stored),
        ),
        (
            "policyd_put_refused_bytes_total",
            "Pages that were offered and that the host refused",
            bytes(*put_refused),
        ),
        (
            "policyd_read_absent_bytes_total",
            "Pages read that the host did not have, as was known without a hypercall",
            bytes(*read_absent),
        ),
        (
            "policyd_get_bytes_total",
            "Pages requested from the host",
            bytes(*get_asked),
        ),
        (
            "policyd_hit_bytes_total",
            "Pages that the host returned",
            bytes(*get_hits),
        ),
        (
            "policyd_miss_bytes_total",
            "Pages requested that the host did not return",
            bytes(*get_misses),
        ),
        (
            "policyd_changes_total",
            "Changes of files, each of which costs a lookup",
            *changes,
        ),
        (
            "policyd_invalidated_bytes_total",
            "Cached pages that became invalid because a file changed",
            bytes(*invalidated),
        ),
        (
            "policyd_evicted_bytes_total",
            "Pages that the host said it has evicted",
            bytes(*evicted),
        ),
        (
            "policyd_map_dropped_bytes_total",
            "Cached pages that were forgotten to keep the map of them within its bound",
            bytes(*map_dropped),
        ),
    ] {
        page.counter(name, help).add(&none, count);
    }
    for (name, help, value) in [
        (
            "policyd_map_files",
            "Files with pages at the host",
            *map_files,
        ),
        (
            "policyd_map_tracked_bytes",
            "Pages that the host may have",
            bytes(*map_pages),
        ),
        (
            "policyd_map_bytes",
            "Memory of the map of pages at the host",
            *map_bytes,
        ),
        (
            "policyd_flushes_waiting",
            "Ranges of pages that the host has not been told to free yet",
            *flushes_waiting,
        ),
    ] {
        page.gauge(name, help).add(&none, value);
    }
    let help = "Durations of get calls seen by the guest";
    page.histogram("policyd_get_duration_seconds", help)
        .add_durations(&none, get_latency);
    let help = "Durations of put calls seen by the guest";
    page.histogram("policyd_put_duration_seconds", help)
        .add_durations(&none, put_latency);
}
