// SPDX-License-Identifier: GPL-2.0-only

//! The JSON of every verb, and its schema.

use crate::page;
use assert_cmd::cargo::cargo_bin_cmd;
use dddaemon::fake::{assert_follows, assert_recorded};
use ddnl::schema::Versioned;
use policyd::{dry_run::DryRunReport, engine::Report, schema};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

#[test]
fn the_file_in_docs_is_the_schema() {
    assert_recorded(&schema::document(), "policyd");
    let printed = cargo_bin_cmd!("policyd").arg("schema").output().unwrap();
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(printed, schema::document());
}

/// Returns a report with everything that can be in it.
fn full() -> Report {
    let mut report = page::full().report;
    report.trouble = Some("the module is not loaded".into());
    report.not_open = vec!["no metrics".into()];
    report.floors_bytes = Some(4096);
    let more = json!({
        "store": "hybrid", "ssd_reason": "it is fast", "ssd_share_bytes": 1, "ssd_used_bytes": 1,
        "foreign_limits": { "max": u64::MAX },
        "unprotected": { "bytes": 1, "ancestor": "/a.slice", "has": 0, "needs": 2 },
    });
    let mut one = json!(report.containers[0]);
    one.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    report.containers[0] = serde_json::from_value(one).unwrap();
    report
}

/// The report is the output of `explain`, and a line of the status socket.
#[test]
fn reports_follow_the_schema() {
    let document = schema::document();
    let report = full();
    assert_follows(&document, "explain", &json!(Versioned::new(&report)));
    let absent = Report::default();
    assert_follows(&document, "explain", &json!(Versioned::new(&absent)));
    let changes = vec!["/web: weight 5".into()];
    let found = DryRunReport { changes, report };
    assert_follows(&document, "dry-run", &json!(Versioned::new(&found)));
}

#[test]
fn checks_follow_the_schema() {
    let directory = TempDir::new().unwrap();
    let root = directory.path().join("cgroup");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("cgroup.controllers"), "memory\n").unwrap();
    let file = directory.path().join("policyd.toml");
    let check = |text: &str| {
        let text = format!("cgroup_root = \"{}\"\n{text}", root.display());
        fs::write(&file, text).unwrap();
        let mut command = cargo_bin_cmd!("policyd");
        command
            .args(["check", "--json"])
            .arg(&file)
            .output()
            .unwrap()
    };
    let document = schema::document();
    let output = check("[[container]]\nname = \"web\"\ncgroup = \"/web\"\n");
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_follows(&document, "check", &report);
    assert_eq!(
        (&report["containers"], &report["warnings"]),
        (&json!(1), &json!(1))
    );
    let warning: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_follows(&document, "warning", &warning);
    let output = check("x = 1\n");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let error: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_follows(&document, "error", &error);
}
