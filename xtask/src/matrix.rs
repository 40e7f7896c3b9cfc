// SPDX-License-Identifier: GPL-2.0-only

//! `matrix`: runs the scenarios on every supported kernel.

mod page;

use std::{
    fs,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use ddlab::Accel;
use serde::{Deserialize, Serialize};

use crate::{
    commit,
    suite::{Checks, Flavour, KernelArgs, Suite},
    workspace,
};

/// The file of records, relative to the top of the tree.
const RECORDS: &str = "docs/results/kernels.json";
/// The page that is generated from them.
const PAGE: &str = "docs/users/kernels.md";

/// Run the scenarios on every supported kernel and write docs/users/kernels.md
///
/// Each kernel takes as long as `cargo xtask test vm`; the records of other kernels stay.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this kernel (may be given more than once); all when not given
    #[arg(long = "kernel", value_enum)]
    kernels: Vec<Supported>,
    /// Scenarios to run; all that `cargo xtask test vm` runs when not given
    scenarios: Vec<String>,
    /// Accelerator of the host machine: kvm, tcg or auto
    #[arg(long, default_value = "auto")]
    accel: Accel,
}

/// The supported kernels.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Supported {
    /// Debian 13 with backports, for virtual machines
    BackportsCloud,
    /// Debian 13 with backports, for every machine
    Backports,
    /// Debian unstable, for virtual machines
    Sid,
    /// Debian experimental, for virtual machines
    Experimental,
}

impl Supported {
    fn kernel(self) -> KernelArgs {
        let (suite, flavour) = match self {
            Self::BackportsCloud => (Suite::TrixieBackports, Flavour::CloudAmd64),
            Self::Backports => (Suite::TrixieBackports, Flavour::Amd64),
            Self::Sid => (Suite::Sid, Flavour::CloudAmd64),
            Self::Experimental => (Suite::Experimental, Flavour::CloudAmd64),
        };
        KernelArgs {
            suite,
            flavour,
            checks: Checks::Stock,
        }
    }

    /// Returns the kernel's name on the command line.
    fn name(self) -> String {
        value_name(self)
    }
}

/// Returns the spelling of a value on the command line.
fn value_name(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The results on one kernel.
#[derive(Debug, Deserialize, Serialize)]
struct Record {
    /// Name on the command line.
    kernel: String,
    /// `uname -r` of the kernel that ran.
    release: String,
    /// Day of the run, UTC, `YYYY-MM-DD`.
    date: String,
    /// Commit of the tree.
    commit: String,
    /// Scenarios, in the order they ran.
    scenarios: Vec<Scenario>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Scenario {
    name: String,
    passed: bool,
    /// Commit of the tree, if the scenario ran alone after the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    /// Commit at which it failed since the last whole run, if it passes now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

/// The part of `test --json` that is used here.
#[derive(Debug, Deserialize)]
struct Outcome {
    release: Option<String>,
    tests: Vec<Scenario>,
}

impl Record {
    /// Updates a record with a new run. Scenarios that a partial run left out keep their results
    /// while the release is the same.
    fn update(&mut self, newer: Self, some: bool) {
        if !some || self.release != newer.release {
            *self = newer;
            return;
        }
        for mut scenario in newer.scenarios {
            scenario.commit = (self.commit != newer.commit).then(|| newer.commit.clone());
            match self
                .scenarios
                .iter_mut()
                .find(|old| old.name == scenario.name)
            {
                Some(old) => {
                    // A later pass does not remove the note of a failure.
                    let before = old.commit.as_ref().unwrap_or(&self.commit);
                    scenario.failed = match old.passed {
                        true => old.failed.take(),
                        false => Some(before.clone()),
                    };
                    *old = scenario;
                }
                None => self.scenarios.push(scenario),
            }
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    let kernels = match args.kernels.as_slice() {
        [] => Supported::value_variants(),
        some => some,
    };
    let path = workspace::top().join(RECORDS);
    let mut records: Vec<Record> = match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .with_context(|| format!("{RECORDS} is damaged; restore it from git"))?,
        Err(_) => Vec::new(),
    };
    let mut good = true;
    for kernel in kernels {
        eprintln!("kernel {}", kernel.name());
        let record = examine(*kernel, args)?;
        good &= record.scenarios.iter().all(|scenario| scenario.passed);
        match records.iter_mut().find(|old| old.kernel == record.kernel) {
            Some(old) => old.update(record, !args.scenarios.is_empty()),
            None => records.push(record),
        }
        // The records are written after each kernel, because the next one takes long and may be
        // interrupted.
        ddlab::report::write_json(&path, &records)?;
        fs::write(workspace::top().join(PAGE), page::markdown(&records))?;
    }
    eprintln!("written: {RECORDS}, {PAGE}");
    Ok(good)
}

/// Runs the scenarios on one kernel.
fn examine(kernel: Supported, args: &Args) -> Result<Record> {
    let KernelArgs { suite, flavour, .. } = kernel.kernel();
    let commit = commit::name()?;
    // A separate process prevents one kernel's run from affecting the next.
    let output = Command::new(std::env::current_exe()?)
        .args(["test", "vm", "--json", "--accel", &args.accel.to_string()])
        .args(["--suite", &value_name(suite)])
        .args(["--flavour", &value_name(flavour)])
        .args(&args.scenarios)
        .stderr(Stdio::inherit())
        .output()?;
    let outcome: Outcome = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("no result for {}; see above", kernel.name()))?;
    let release = outcome
        .release
        .with_context(|| format!("{} could not be made; see above", kernel.name()))?;
    Ok(Record {
        kernel: kernel.name(),
        release,
        date: commit::today()?,
        commit,
        scenarios: outcome.tests,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(commit: &str, scenarios: &[(&str, bool)]) -> Record {
        Record {
            kernel: "sid".to_owned(),
            release: "7.2.13".to_owned(),
            date: "2026-11-21".to_owned(),
            commit: commit.to_owned(),
            scenarios: scenarios
                .iter()
                .map(|&(name, passed)| Scenario {
                    name: name.to_owned(),
                    passed,
                    commit: None,
                    failed: None,
                })
                .collect(),
        }
    }

    #[test]
    fn single_scenarios_complete_a_record() {
        let mut old = record("a", &[("boot", true), ("stream", false)]);
        old.update(record("a", &[("stream", true)]), true);
        old.update(record("b", &[("reboot", true)]), true);
        let passed: Vec<_> = old.scenarios.iter().map(|one| one.passed).collect();
        assert_eq!(passed, [true; 3]);
        let page = page::markdown(&[old]);
        assert!(page.contains("| `stream` | passed, failed (a) |"), "{page}");
        assert!(page.contains("| `reboot` | passed (b) |"), "{page}");
        assert!(page.contains("`torture`, "), "not run: {page}");
    }

    #[test]
    fn nothing_of_before_a_whole_run_stays() {
        let mut old = record("a", &[("boot", true), ("stream", true)]);
        old.update(record("b", &[("boot", false)]), false);
        assert_eq!(old.scenarios.len(), 1);
        assert!(page::markdown(&[old]).contains("failed"));
    }
}
