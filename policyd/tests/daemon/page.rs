// SPDX-License-Identifier: GPL-2.0-only

//! Tests of the page for Prometheus: its conventions, its bounds, and its table in the documents.

use ddabi::{counters::AdmissionCounters, pool::PoolStats};
use dddaemon::{
    catalogue::{self, Metric},
    exposition::Format,
    scrape,
};
use ddnl::fake::GuestState;
use policyd::{
    engine::{Explanation, Report},
    metrics::{self, GuestFigures, Shown},
};
use serde_json::json;
use std::collections::BTreeMap;
use tempfile::TempDir;

fn text(shown: &Shown, format: Format) -> String {
    catalogue::text(shown, metrics::page, format)
}

fn metrics(shown: &Shown) -> BTreeMap<String, Metric> {
    catalogue::metrics(shown, metrics::page)
}

fn container(name: &str) -> Explanation {
    let goal = |figure: &str, target: f64, measured: f64| json!({ "figure": figure, "target": target, "measured": measured });
    let line = json!({
        "cgroup": format!("/{name}"), "name": name, "class": "gold", "enrolled": true,
        "verdict": "met", "reason": "", "weight": 300, "ssd_weight": 40,
        "share_bytes": null, "used_bytes": null, "need_bytes": 8192,
        "character": "mixed", "memory_bytes": 4096, "anon_bytes": 0,
        "goals": [
            goal("throughput", 900.0, 950.0), goal("latency", 20.0, 12.5),
            goal("hit_ratio", 0.5, 0.75), goal("refault_rate", 100.0, 7.0),
            goal("memory_pressure", 10.0, 0.5), goal("io_pressure", 50.0, 25.0),
        ],
        "limits": { "low": 1, "high": 65536 },
    });
    serde_json::from_value(line).unwrap()
}

/// A guest with everything that can be on the page.
pub(crate) fn full() -> Shown {
    let mut report = Report {
        module: true,
        store_bytes: Some(1 << 30),
        feasible: Some(true),
        containers: vec![container("web")],
        ..Report::default()
    };
    report.memory.pressure_percent = Some(2.5);
    report.memory.reclaimed_bytes = 77;
    let GuestState { status, pools, .. } = GuestState::default();
    let mut guest = GuestFigures { status, pools };
    guest.status.counters.get_hits = 2;
    guest.status.counters.put_skipped_policy = 3;
    guest.status.counters.get_latency[12] = 4;
    guest.pools[0].stats = Some(PoolStats {
        hits: 5,
        ..PoolStats::default()
    });
    guest.pools[0].admission = Some(AdmissionCounters {
        refused_policy: 1,
        throttle: 2,
        curve_error_permille: 25,
        ..AdmissionCounters::default()
    });
    Shown {
        report,
        guest: Some(guest),
    }
}

#[test]
fn the_page_shows_the_guest_and_its_containers() {
    let page = text(&full(), Format::Text);
    let web = "container=\"web\",cgroup=\"/web\"";
    let default = "container=\"default\",cgroup=\"\"";
    for line in [
        "policyd_store_bytes 1073741824".into(),
        "policyd_memory_pressure_ratio 0.025".into(),
        "policyd_reclaimed_bytes_total 77".into(),
        "policyd_hit_bytes_total 8192".into(),
        "policyd_put_skipped_bytes_total{reason=\"policy\"} 12288".into(),
        "policyd_get_duration_seconds_bucket{le=\"+Inf\"} 4".into(),
        format!("policyd_container_weight{{{web}}} 300"),
        format!("policyd_container_ssd_weight{{{web}}} 40"),
        format!("policyd_container_target_met{{{web}}} 1"),
        format!("policyd_container_target_latency_seconds{{{web}}} 0.02"),
        format!("policyd_container_measured_latency_seconds{{{web}}} 0.0125"),
        format!("policyd_container_target_memory_pressure_ratio{{{web}}} 0.1"),
        format!("policyd_container_measured_io_pressure_ratio{{{web}}} 0.25"),
        format!("policyd_container_measured_throughput{{{web}}} 950"),
        format!("policyd_container_hit_bytes_total{{{default}}} 20480"),
        format!("policyd_container_put_throttle_ratio{{{default}}} 0.25"),
        format!("policyd_container_curve_error_ratio{{{default}}} 0.025"),
    ] {
        assert!(page.lines().any(|one| one == line), "{line} in {page}");
    }
}

#[test]
fn a_daemon_without_a_module_has_a_page() {
    let metrics = metrics(&Shown::default());
    assert_eq!(metrics["policyd_module_loaded"].series[""], 0.0);
    assert!(!metrics.contains_key("policyd_store_bytes"));
    let open = text(&Shown::default(), Format::OpenMetrics);
    assert!(open.ends_with("\n# EOF\n"), "{open}");
}

#[test]
fn labels_have_no_hidden_letters() {
    let mut shown = Shown::default();
    let name = "a\u{1b}[2J\u{202e}b\u{200b}";
    shown.report.containers.push(container(name));
    for text in [text(&shown, Format::Text), shown.report.to_string()] {
        assert!(text.contains("u{202e}b"), "{text}");
        let mut letters = text.chars();
        let hidden = letters.find(|one| ddnl::is_hidden(*one) && *one != '\n');
        assert_eq!(hidden, None, "{text:?}");
    }
}

#[test]
fn users_do_not_make_the_page_larger_than_its_bound() {
    let mut shown = full();
    let containers = (0..1100).map(|number| container(&number.to_string()));
    shown.report.containers = containers.collect();
    let guest = shown.guest.as_mut().unwrap();
    let pools = (0..1100).map(|number| {
        let mut pool = guest.pools[0].clone();
        pool.name = number.to_string();
        pool
    });
    guest.pools = pools.collect();
    let metrics = metrics(&shown);
    assert_eq!(metrics["policyd_container_weight"].series.len(), 1024);
    assert_eq!(
        metrics["policyd_container_hit_bytes_total"].series.len(),
        1024
    );
    assert_eq!(metrics["policyd_containers_not_exported"].series[""], 76.0);
}

/// The table in the documents agrees with the page's own descriptions.
#[test]
fn the_documents_list_all_metrics() {
    catalogue::assert_documented("policyd_", &full(), metrics::page);
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
    let query = "policyd_container_target_latency_seconds";
    let answer = scrape::answer(full(), metrics::page, query, directory.path()).await;
    assert!(answer.contains("container=\"web\", instance="), "{answer}");
}
