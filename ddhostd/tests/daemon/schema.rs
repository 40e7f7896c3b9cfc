// SPDX-License-Identifier: GPL-2.0-only

//! The JSON of every verb, and its schema.

use crate::{page, world::World};
use assert_cmd::cargo::cargo_bin_cmd;
use dddaemon::fake::{assert_follows, assert_recorded};
use ddhostd::{
    dry_run,
    report::{DeviceReport, Rule, Tier},
    schema,
};
use ddnl::schema::Versioned;
use ddvm::Config;
use serde_json::{Value, json};
use std::fs;

#[test]
fn the_file_in_docs_is_the_schema() {
    assert_recorded(&schema::document(), "ddhostd");
    let printed = cargo_bin_cmd!("ddhostd").arg("schema").output().unwrap();
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(printed, schema::document());
}

/// The report is the output of `status`, and a line of the status socket.
#[test]
fn reports_follow_the_schema() {
    let mut report = page::full();
    report.troubles.push("a device is absent".into());
    report.refused = Some("line 1".into());
    report.tier = Some(Tier::default());
    report.vms[0].rule = Rule::Entry {
        line: 3,
        selector: "name `web`".into(),
    };
    report.devices.push(DeviceReport {
        path: "/dev/sdb".into(),
        state: None,
    });
    let document = schema::document();
    assert_follows(&document, "status", &json!(Versioned::new(&report)));
    let absent = ddhostd::report::Report::default();
    assert_follows(&document, "status", &json!(Versioned::new(&absent)));
}

#[test]
fn dry_runs_follow_the_schema() {
    let world = World::new();
    world.register(1, "web-1");
    world.write("dev/sdb", "\0data");
    let file = "[memory]\ncapacity = \"25%\"\n[[ssd.device]]\npath = \"/dev/sdb\"\n\
                [[ssd.device]]\npath = \"/dev/sdc\"\n[[vm]]\nname = \"web-*\"\nweight = 300\n";
    let config = Config::parse(file, 8 << 30).unwrap();
    let found = dry_run::run(&config, &mut world.host.clone(), &world.paths()).unwrap();
    assert!(!found.sizes.is_empty() && found.devices.len() == 2);
    let output = json!(Versioned::new(&found));
    assert_follows(&schema::document(), "dry-run", &output);
}

#[test]
fn checks_follow_the_schema() {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("host.toml");
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        let mut command = cargo_bin_cmd!("ddhostd");
        let output = command.args(["check", "--json", "--config"]).arg(&file);
        output.output().unwrap()
    };
    let document = schema::document();
    let device = "[[ssd.device]]\npath = \"/dev/ddhostd-absent\"\n";
    let output = check(&format!("[[vm]]\nname = \"a\"\nweight = 1\n{device}"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_follows(&document, "check", &report);
    assert_eq!(
        (&report["entries"], &report["devices"]),
        (&json!(1), &json!(1))
    );
    // The parameter of a module that is loaded here may be the reason for another warning.
    let warnings = String::from_utf8(output.stderr).unwrap();
    assert_eq!(report["warnings"], warnings.lines().count());
    assert!(warnings.lines().count() > 0);
    for line in warnings.lines() {
        assert_follows(&document, "warning", &serde_json::from_str(line).unwrap());
    }
    let output = check("x = 1\n");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let error: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_follows(&document, "error", &error);
}
