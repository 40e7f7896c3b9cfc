// SPDX-License-Identifier: GPL-2.0-only

//! Tests of the page for Prometheus: its conventions, its bounds, and its table in the documents.

use crate::world::pool;
use ddabi::{
    pool::{PoolStats, Store},
    ssd::{DeviceState, SsdStats},
};
use dddaemon::{
    catalogue::{self, Metric},
    exposition::Format,
    scrape,
};
use ddhostd::{
    accumulator::Totals,
    containers::Selection,
    metrics::{self, Measured},
    report::{Counters, Report, Rule, VmReport},
};
use ddnl::{
    Device,
    fake::{FakeHost, HostState},
};
use std::{collections::BTreeMap, sync::Arc};
use tempfile::TempDir;

fn text(report: &Report, format: Format) -> String {
    catalogue::text(report, metrics::page, format)
}

fn metrics(report: &Report) -> BTreeMap<String, Metric> {
    catalogue::metrics(report, metrics::page)
}

fn vm(id: u32, name: &str) -> VmReport {
    VmReport {
        id,
        pid: None,
        uid: None,
        name: Some(name.into()),
        uuid: None,
        cgroup: None,
        weight: 60,
        ssd_weight: 50,
        file_weight: 70,
        file_ssd_weight: 80,
        rule: Rule::Allow,
        used_pages: 1,
        entitlement_pages: 2,
        counters: Counters::new(),
        stats: PoolStats {
            used: 3,
            ssd_used: 1,
            ..PoolStats::default()
        },
    }
}

/// A host with everything that can be on the page.
pub(crate) fn full() -> Report {
    let host = FakeHost::new(HostState::default());
    let mut status = host.with(|state| state.status.clone());
    status.counters.calls = 7;
    status.counters.refused_user = 3;
    status.counters.evicted = 2;
    let mut stats = PoolStats {
        hits: 10,
        ..PoolStats::default()
    };
    stats.get_latency[12] = 4;
    let totals = Totals::from([("mem", stats), ("ssd", stats)]);
    let device = Device {
        id: 0,
        path: "/dev/nvme0n1p3".into(),
        state: DeviceState::Suspect,
        stats: SsdStats {
            places: 2,
            segment_places: 2,
            free_segments: 1,
            read_errors: 9,
            ..SsdStats::default()
        },
    };
    Report {
        healthy: true,
        loads: 1,
        vms: vec![vm(3, "a\u{1b}b")],
        measured: Arc::new(Measured {
            status: Some(status),
            devices: vec![device],
            containers: vec![
                pool(3, 0, "default", Store::Memory),
                pool(3, 5, "\"web\"", Store::Ssd),
            ],
            container_count: 2,
            totals: BTreeMap::from([(3, totals)]),
        }),
        ..Report::default()
    }
}

#[test]
fn the_page_shows_the_host_vms_containers_and_devices() {
    let page = text(&full(), Format::Text);
    let vm = "vm=\"3\",vm_name=\"a\\\\u{1b}b\"";
    let web = format!("{vm},pool=\"5\",container=\"\\\"web\\\"\",store=\"ssd\"");
    let device = "device=\"0\",path=\"/dev/nvme0n1p3\"";
    for line in [
        "ddhostd_healthy 1".into(),
        "ddhostd_memory_capacity_bytes 1073741824".into(),
        "ddhostd_hypercalls_total 7".into(),
        "ddhostd_hypercalls_refused_total{reason=\"user\"} 3".into(),
        "ddhostd_evicted_bytes_total 8192".into(),
        "ddhostd_ssd_deadline_seconds 0.02".into(),
        format!("ddhostd_vm_weight{{{vm}}} 60"),
        format!("ddhostd_vm_file_weight{{{vm}}} 70"),
        format!("ddhostd_vm_used_bytes{{{vm}}} 12288"),
        format!("ddhostd_vm_ssd_used_bytes{{{vm}}} 4096"),
        format!("ddhostd_vm_hit_bytes_total{{{vm}}} 81920"),
        format!(
            "ddhostd_vm_get_duration_seconds_bucket{{{vm},store=\"ssd\",tier=\"memory\",le=\"0.000008191\"}} 4"
        ),
        format!("ddhostd_vm_get_duration_seconds_count{{{vm},store=\"mem\",tier=\"memory\"}} 4"),
        format!("ddhostd_container_hit_bytes_total{{{web}}} 20480"),
        format!("ddhostd_ssd_state{{{device},state=\"suspect\"}} 1"),
        format!("ddhostd_ssd_size_bytes{{{device}}} 8192"),
        format!("ddhostd_ssd_read_errors_total{{{device}}} 9"),
    ] {
        assert!(page.lines().any(|one| one == line), "{line} in {page}");
    }
}

#[test]
fn a_daemon_without_a_module_has_a_page() {
    let metrics = metrics(&Report::default());
    assert_eq!(metrics["ddhostd_module_loaded"].series[""], 0.0);
    assert!(!metrics.contains_key("ddhostd_memory_capacity_bytes"));
    let open = text(&Report::default(), Format::OpenMetrics);
    assert!(open.ends_with("\n# EOF\n"), "{open}");
}

#[test]
fn guests_do_not_make_the_page_larger_than_its_bound() {
    let mut report = full();
    report.vms = (1..=2).map(|id| vm(id, "a")).collect();
    let mut selection = Selection::default();
    for (vm, count) in [(1, 1500), (2, 3)] {
        let pools = (0..count).map(|id| pool(vm, id, "x", Store::Memory));
        selection.add(pools.collect());
    }
    let (containers, container_count) = selection.end();
    report.measured = Arc::new(Measured {
        containers,
        container_count,
        ..Measured::default()
    });
    let metrics = metrics(&report);
    let containers = &metrics["ddhostd_container_weight"].series;
    assert_eq!(containers.len(), 1024);
    // A VM with many containers does not displace those of others.
    let of_second = |series: &&String| series.contains("vm=\"2\"");
    assert_eq!(containers.keys().filter(of_second).count(), 3);
    let left_out = &metrics["ddhostd_objects_not_exported"].series;
    assert_eq!(left_out["{kind=\"container\"}"], 479.0);
    assert_eq!(left_out["{kind=\"vm\"}"], 0.0);
    report.vms = (1..=1030).map(|id| vm(id, "a")).collect();
    let metrics = self::metrics(&report);
    assert_eq!(metrics["ddhostd_vm_weight"].series.len(), 1024);
    let left_out = &metrics["ddhostd_objects_not_exported"].series;
    assert_eq!(left_out["{kind=\"vm\"}"], 6.0);
}

/// The table in the documents agrees with the page's own descriptions.
#[test]
fn the_documents_list_all_metrics() {
    catalogue::assert_documented("ddhostd_", &full(), metrics::page);
}

/// The linter of Prometheus itself.
#[test]
#[ignore = "needs promtool: `cargo xtask monitoring`"]
fn promtool_accepts_the_page() {
    assert_eq!(scrape::complaints(&full(), metrics::page), "");
}

/// Prometheus asks for OpenMetrics, and refuses a page that breaks one of its rules as a whole.
#[tokio::test]
#[ignore = "needs Prometheus: `cargo xtask monitoring`"]
async fn prometheus_scrapes_the_page() {
    let directory = TempDir::new().unwrap();
    let query = "ddhostd_vm_hit_bytes_total";
    let answer = scrape::answer(full(), metrics::page, query, directory.path()).await;
    assert!(
        answer.contains("vm_name=\"a\\\\u{1b}b\"} => 81920 @"),
        "{answer}"
    );
}
