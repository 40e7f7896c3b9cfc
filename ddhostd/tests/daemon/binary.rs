// SPDX-License-Identifier: GPL-2.0-only

//! Tests of the program: exit codes, signals, and messages to a service manager.

use assert_cmd::cargo::{cargo_bin, cargo_bin_cmd};
use dddaemon::fake::{self, Manager};
use insta::assert_snapshot;
use rustix::process::Signal;
use std::{fs, path::Path};
use tempfile::TempDir;

/// Runs the program. Returns its exit code, and its output without the directory's name.
fn ddhostd(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = cargo_bin_cmd!("ddhostd").args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    let place = format!("{}/", directory.display());
    (output.status.code(), text.replace(&place, ""))
}

/// Runs a verb on a file with this text.
fn on(verb: &str, text: &str) -> (Option<i32>, String) {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("host.toml");
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    ddhostd(directory.path(), &[verb, "--config", file])
}

#[test]
fn check_accepts_valid_and_refuses_invalid_files() {
    let (code, text) = on("check", "[[vm]]\nname = \"web\"\nweight = 5\n");
    assert_eq!((code, text.as_str()), (Some(0), "host.toml: OK, 1 entry\n"));
    let wrong = "defualt = \"deny\"\n[[vm]]\nname = \"a\"\nweight = 1\n\
                 [[vm]]\nname = \"a\"\nweight = 2\n";
    let (code, text) = on("check", wrong);
    assert_eq!(code, Some(1));
    assert_snapshot!(text);
    // A wrong file is not run either.
    for verb in ["run", "dry-run"] {
        let (code, text) = on(verb, wrong);
        assert_eq!(code, Some(1), "{verb}");
        assert!(text.contains("unknown key `defualt`"), "{verb}: {text}");
    }
}

#[test]
fn check_reports_paths_that_are_no_devices() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("cache.img");
    fs::write(&file, "").unwrap();
    let device = |path: &Path| format!("[[ssd.device]]\npath = \"{}\"\n", path.display());
    let (code, text) = on("check", &device(&file));
    assert_eq!(code, Some(1));
    let message = format!("Error: line 1: {} is not a block device; ", file.display());
    assert!(text.starts_with(&message), "{text}");
    // A device may appear later. Its name may belong to another device then.
    let (code, text) = on("check", &device(Path::new("/dev/ddhostd-absent")));
    assert_eq!(code, Some(0));
    let message = "host.toml: OK, 0 entries, 1 device\n\
                   Warning: line 1: /dev/ddhostd-absent may be another device after a reboot: ";
    assert!(text.starts_with(message), "{text}");
}

#[test]
fn missing_files_and_sockets_are_reported() {
    let nowhere = Path::new("/does/not");
    let (code, text) = ddhostd(nowhere, &["check", "--config", "/does/not/exist.toml"]);
    assert_eq!(code, Some(1));
    assert!(
        text.starts_with("Error: cannot read exist.toml: "),
        "{text}"
    );
    let (code, text) = ddhostd(nowhere, &["status", "--socket", "/does/not/exist"]);
    assert_eq!(code, Some(5));
    assert!(
        text.starts_with("Error: cannot ask exist; does ddhostd run?"),
        "{text}"
    );
    assert_eq!(ddhostd(nowhere, &["frobnicate"]).0, Some(2));
}

/// A program that reads JSON gets the error as JSON, too.
#[test]
fn errors_are_json_on_request() {
    let nowhere = Path::new("/does/not");
    let status = ["status", "--json", "--socket", "/does/not/exist"];
    let error = |arguments: &[&str]| -> serde_json::Value {
        let (code, text) = ddhostd(nowhere, arguments);
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["error"]["exit_code"].as_i64(), code.map(i64::from));
        assert_eq!(line["schema_version"], 1);
        line["error"].clone()
    };
    let told = error(&status);
    assert_eq!(told["kind"], "not-found");
    let message = told["message"].as_str().unwrap();
    assert!(message.starts_with("cannot ask exist; does ddhostd run?"));
    let hint = "`systemctl status doubledecker-ddhostd` shows whether it runs";
    assert_eq!(told["hint"], hint);
    let dry_run = ["dry-run", "--json", "--config", "/does/not/exist.toml"];
    let told = error(&dry_run);
    assert_eq!(told["kind"], "failed");
    let told = error(&["status", "--json", "--soket", "/x"]);
    assert_eq!(
        (&told["kind"], &told["exit_code"]),
        (&"usage".into(), &2.into())
    );
    assert!(told["message"].as_str().unwrap().contains("--soket"));
    // A file of that name is no option.
    let (_, text) = ddhostd(nowhere, &["status", "--", "--json"]);
    assert!(text.starts_with("error: "), "{text}");
}

#[test]
fn every_help_has_examples_and_fits() {
    fake::assert_help(ddhostd::cli::command());
}

/// Checks the message where the module is not loaded. With the module, or without privileges, the
/// answer differs, but there is no panic.
#[test]
fn a_dry_run_needs_the_module() {
    let (code, text) = on("dry-run", "");
    assert!(
        [Some(0), Some(3), Some(4), Some(6)].contains(&code),
        "{text}"
    );
    if code == Some(3) {
        let message = "Error: the kernel module doubledecker_host is not loaded\nHint: ";
        assert!(text.starts_with(message), "{text}");
    }
}

#[test]
fn the_version_is_that_of_the_modules() {
    let version = format!("ddhostd {}\n", ddabi::VERSION);
    let mut command = cargo_bin_cmd!("ddhostd");
    command.arg("--version").assert().success().stdout(version);
}

/// Starts the daemon with a file of its own, which has this text at its end.
fn start(directory: &Path, text: &str) -> Manager {
    let file = directory.join("host.toml");
    let socket = directory.join("host.sock");
    let text = format!("status-socket = \"{}\"\n{text}", socket.display());
    fs::write(&file, text).unwrap();
    Manager::start(cargo_bin!("ddhostd"), &file, directory)
}

/// The test starts a second daemon, and reads the status.
#[test]
fn it_talks_to_its_manager() {
    let directory = TempDir::new().unwrap();
    let mut manager = start(directory.path(), "");
    manager.wait_for("READY=1");
    manager.wait_for("WATCHDOG=1");
    let second = cargo_bin_cmd!("ddhostd")
        .args(["run", "--config"])
        .arg(directory.path().join("host.toml"))
        .env("RUNTIME_DIRECTORY", directory.path())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let text = String::from_utf8(second.stderr).unwrap();
    assert!(text.contains("another ddhostd runs"), "{text}");
    let socket = directory.path().join("host.sock");
    let status = ["status", "--json", "--socket", socket.to_str().unwrap()];
    let (code, text) = ddhostd(directory.path(), &status);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["loads"], 1);
    let healthy = report["healthy"].as_bool().unwrap();
    assert_eq!(code, Some(i32::from(!healthy)));
    manager.signal(Signal::HUP);
    manager.wait_for("RELOADING=1");
    manager.wait_for("READY=1");
    manager.signal(Signal::TERM);
    manager.wait_for("STOPPING=1");
    assert_eq!(manager.daemon.wait().unwrap().code(), Some(0));
    assert!(!socket.exists());
}

/// The file that the packages install has no address.
#[test]
fn the_page_is_served_where_the_file_says() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/host.toml");
    let example = fs::read_to_string(example).unwrap();
    let directory = TempDir::new().unwrap();
    fake::assert_page_is_asked_for(|line| start(directory.path(), &format!("{line}{example}")));
}

#[test]
fn the_unit_is_sound() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/doubledecker-ddhostd.service");
    let lines = [
        "Type=notify",
        "WatchdogSec=",
        "ExecReload=",
        // The daemon does not give up, and does not start all the time either.
        "RestartSteps=",
        "RestartMaxDelaySec=",
        "CapabilityBoundingSet=CAP_NET_ADMIN",
        // Devices of the SSD tier, and no others.
        "DevicePolicy=closed",
        "DeviceAllow=block-* rw",
        // VMMs are processes of other users.
        "ProtectProc=default",
    ];
    fake::assert_unit(Path::new(unit), &lines);
    // A file that is valid, but does not suit this machine, must not stop the daemon.
    let text = fs::read_to_string(unit).unwrap();
    assert!(!text.contains("ExecStartPre="), "{text}");
}
