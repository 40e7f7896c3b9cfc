// SPDX-License-Identifier: GPL-2.0

//! Tests cargo runs.

use std::{
    env,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};

use super::{Outcome, Test};
use crate::{progress, workspace};

/// Crates whose integration tests are the `cli` layer.
const TOOLS: [&str; 2] = ["ddctl", "policyd"];

/// Everything but the tools' integration tests.
pub(super) fn unit(outcome: &mut Outcome) -> Result<()> {
    let others: Vec<&str> = TOOLS.iter().flat_map(|tool| ["--exclude", tool]).collect();
    let others = [&["--workspace"], others.as_slice()].concat();
    progress::step("unit tests", || cargo("unit", &others, outcome))?;
    let tools: Vec<&str> = TOOLS.iter().flat_map(|tool| ["--package", tool]).collect();
    let tools = [tools.as_slice(), &["--lib", "--bins"]].concat();
    progress::step("unit tests of the tools", || cargo("unit", &tools, outcome))
}

/// The tools' integration tests.
pub(super) fn cli(outcome: &mut Outcome) -> Result<()> {
    for tool in TOOLS {
        if !workspace::top().join(tool).join("tests").is_dir() {
            eprintln!("{tool} has no integration tests");
            continue;
        }
        let arguments = ["--package", tool, "--test", "*"];
        progress::step(&format!("tests of {tool}"), || {
            cargo("cli", &arguments, outcome)
        })?;
    }
    Ok(())
}

fn cargo(layer: &'static str, arguments: &[&str], outcome: &mut Outcome) -> Result<()> {
    let mut child = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(workspace::top())
        .args(["test", "--no-fail-fast"])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let stdout = child.stdout.take().context("cargo has no output")?;
    let before = outcome.tests.len();
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        match parse(layer, &line) {
            Some(test) if test.passed => outcome.tests.push(test),
            Some(test) => {
                eprintln!("{line}");
                outcome.tests.push(test);
            }
            None if is_noise(&line) => {}
            None => eprintln!("{line}"),
        }
    }
    let status = child.wait()?;
    let seen = &outcome.tests[before..];
    if !status.success() && seen.iter().all(|test| test.passed) {
        outcome.tests.push(Test {
            layer,
            name: format!("cargo test {}", arguments.join(" ")),
            passed: false,
            seconds: None,
            error: Some(format!("cargo ended with {status}")),
        });
    }
    Ok(())
}

/// `test name ... ok`, of both unit and documentation tests.
fn parse(layer: &'static str, line: &str) -> Option<Test> {
    let (name, verdict) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let passed = match verdict.split([' ', ',']).next()? {
        "ok" => true,
        "FAILED" => false,
        // An ignored test is no result.
        _ => return None,
    };
    Some(Test {
        layer,
        name: name.to_owned(),
        passed,
        seconds: None,
        error: None,
    })
}

fn is_noise(line: &str) -> bool {
    line.is_empty()
        || line.starts_with("running ")
        || line.starts_with("test result: ok")
        || line.starts_with("test ") && line.contains(" ... ignored")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_read() {
        let ok = parse("unit", "test key::tests::round_trip ... ok").unwrap();
        assert_eq!(
            (ok.name.as_str(), ok.passed),
            ("key::tests::round_trip", true)
        );
        let doc = parse(
            "unit",
            "test ddlab/src/machine.rs - machine::Command (line 24) ... ok",
        );
        assert!(doc.unwrap().passed);
        assert!(!parse("unit", "test a ... FAILED").unwrap().passed);
        assert!(parse("unit", "test a ... ignored, needs a VM").is_none());
        assert!(parse("unit", "test result: ok. 3 passed; 0 failed").is_none());
    }
}
