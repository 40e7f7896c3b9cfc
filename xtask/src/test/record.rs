// SPDX-License-Identifier: GPL-2.0

//! What the last run of all scenarios came to, as data in the tree.

use std::path::Path;

use anyhow::Result;
use ddlab::{Target, report};
use serde::Serialize;

use super::{Layer, Outcome};
use crate::{commit, workspace};

/// Where it is, below the workspace.
const RECORD: &str = "docs/scenarios.json";

/// A run of all scenarios.
#[derive(Debug, Serialize)]
struct Record<'a> {
    /// `uname -r` of the kernel that ran.
    release: Option<&'a str>,
    /// Day of the run, UTC, `YYYY-MM-DD`.
    date: String,
    /// Commit of the tree.
    commit: String,
    scenarios: Vec<Scenario<'a>>,
    not_run: &'a [&'static str],
    boot_retries: usize,
    targets: &'a [Target],
}

#[derive(Debug, Serialize)]
struct Scenario<'a> {
    name: &'a str,
    passed: bool,
    seconds: Option<u64>,
}

/// Writes the record of a run.
pub(super) fn write(outcome: &Outcome) -> Result<()> {
    write_to(&workspace::top().join(RECORD), outcome)?;
    eprintln!("written: {RECORD}");
    Ok(())
}

fn write_to(path: &Path, outcome: &Outcome) -> Result<()> {
    let vm = outcome.tests.iter();
    let vm = vm.filter(|test| test.layer == Layer::Vm.name());
    let record = Record {
        release: outcome.release.as_deref(),
        date: commit::today()?,
        commit: commit::name()?,
        scenarios: vm
            .map(|test| Scenario {
                name: &test.name,
                passed: test.passed,
                seconds: test.seconds.map(|seconds| seconds as u64),
            })
            .collect(),
        not_run: &outcome.not_run,
        boot_retries: outcome.boot_retries,
        targets: &outcome.targets,
    };
    report::write_json(path, &record)
}
