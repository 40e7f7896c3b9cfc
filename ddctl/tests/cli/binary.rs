// SPDX-License-Identifier: GPL-2.0-only

//! The program itself, on the machine the tests run on.

use assert_cmd::{Command, cargo::cargo_bin_cmd};
use std::process::Stdio;

fn ddctl() -> Command {
    cargo_bin_cmd!("ddctl")
}

#[test]
fn usage_errors_exit_with_2() {
    ddctl().arg("frobnicate").assert().code(2);
    ddctl().args(["set-weight", "1", "99999"]).assert().code(2);
    ddctl().assert().code(2);
}

#[test]
fn help_and_version_exit_with_0() {
    ddctl().arg("--help").assert().success();
    let version = format!("ddctl {}\n", ddabi::VERSION);
    ddctl().arg("--version").assert().success().stdout(version);
}

/// The machine of the tests usually has no module. If it has one, the answer differs, but there is
/// no panic.
#[test]
fn without_a_module_it_reports_that() {
    let output = ddctl().args(["vm", "list"]).output().unwrap();
    let code = output.status.code().unwrap();
    assert!([0, 1, 3, 4, 6].contains(&code), "{output:?}");
    if code == 3 {
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with("Error: the kernel module"), "{text}");
        assert!(text.contains("\nHint: "), "{text}");
    }
}

#[test]
fn a_closed_output_is_not_an_error() {
    let path = ddctl().get_program().to_owned();
    let mut child = std::process::Command::new(path)
        .arg("--help")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
