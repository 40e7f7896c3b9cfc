// SPDX-License-Identifier: GPL-2.0-only

//! The last run of each scenario, kept as data in the tree. All scenarios together take many hours,
//! so that each entry has a commit and a date.

use std::{collections::BTreeMap, fs, io, path::Path};

use anyhow::{Context as _, Result};
use ddlab::{Target, report};
use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::{commit, workspace};

/// The file, relative to the top of the tree.
const RECORD: &str = "docs/results/scenarios.json";

/// Entries by the name of the scenario.
type Record = BTreeMap<String, Entry>;

/// The last run of a scenario.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Entry {
    passed: bool,
    /// Whether it ran in its short form.
    quick: bool,
    /// Duration in seconds, including the boot.
    seconds: u64,
    #[serde(flatten)]
    state: State,
    targets: Vec<Target>,
    /// The last run that failed, if any. A later pass does not remove it.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<Failure>,
}

/// The tested state.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct State {
    /// `uname -r` of the kernel.
    release: String,
    /// Commit of the tree.
    commit: String,
    /// Day of the run, UTC, `YYYY-MM-DD`.
    date: String,
}

/// A run that failed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Failure {
    commit: String,
    date: String,
    /// The first line of the error.
    error: String,
}

/// A run of a scenario in this run of the tests.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) name: &'static str,
    pub(super) quick: bool,
    pub(super) seconds: f64,
    /// The error, if the scenario failed.
    pub(super) error: Option<String>,
    pub(super) targets: Vec<Target>,
}

/// Adds the scenarios of this run to the record, each in place of its previous entry.
pub(super) fn write(outcome: &Outcome) -> Result<()> {
    let state = State {
        release: outcome.release.clone().context("no scenario ran")?,
        commit: commit::name()?,
        date: commit::today()?,
    };
    write_to(&workspace::top().join(RECORD), &outcome.runs, &state)?;
    eprintln!("written: {RECORD}");
    Ok(())
}

fn write_to(path: &Path, runs: &[Run], state: &State) -> Result<()> {
    let mut record: Record = match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged; restore it with git", path.display()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Record::new(),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    for run in runs {
        let before = record.remove(run.name).and_then(|entry| entry.failed);
        record.insert(run.name.to_owned(), run.entry(state, before));
    }
    report::write_json(path, &record)
}

impl Run {
    fn entry(&self, state: &State, failed_before: Option<Failure>) -> Entry {
        let failed = self.error.as_ref().map(|error| Failure {
            commit: state.commit.clone(),
            date: state.date.clone(),
            error: error.lines().next().unwrap_or_default().to_owned(),
        });
        Entry {
            passed: self.error.is_none(),
            quick: self.quick,
            seconds: self.seconds as u64,
            state: state.clone(),
            targets: self.targets.clone(),
            failed: failed.or(failed_before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(commit: &str) -> State {
        State {
            release: "7.2".to_owned(),
            commit: commit.to_owned(),
            date: "2026-01-02".to_owned(),
        }
    }

    fn run(name: &'static str, error: Option<&str>) -> Run {
        Run {
            name,
            quick: false,
            seconds: 1.5,
            error: error.map(str::to_owned),
            targets: vec![Target::at_most("pages", 1.0, 0.0, "")],
        }
    }

    #[test]
    fn runs_are_added_and_failures_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results/scenarios.json");
        let write = |runs: &[Run], commit| write_to(&path, runs, &state(commit)).unwrap();
        let read =
            || -> Record { serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap() };
        write(&[run("a", None), run("b", Some("no page\nof ten"))], "one");
        write(&[run("b", None)], "two");
        let record = read();
        assert_eq!(record["a"].state, state("one"));
        let b = &record["b"];
        assert!(b.passed && b.state == state("two"));
        let failed = b.failed.as_ref().unwrap();
        assert_eq!(
            (failed.commit.as_str(), failed.error.as_str()),
            ("one", "no page")
        );
        write(&[run("a", Some("later"))], "three");
        assert!(!read()["a"].passed && read()["b"] == record["b"]);
    }

    #[test]
    fn a_damaged_record_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scenarios.json");
        fs::write(&path, "{").unwrap();
        assert!(write_to(&path, &[run("a", None)], &state("one")).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{");
    }
}
