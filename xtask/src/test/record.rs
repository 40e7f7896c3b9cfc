// SPDX-License-Identifier: GPL-2.0-only

//! The last run of each scenario, kept as data in the tree. All scenarios together take many hours,
//! so that each entry has a commit and a date.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use ddlab::{Scenario, Target, Verdict, report};
use serde::{Deserialize, Serialize};

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

/// Writes each scenario into the record as soon as it has ended, so that a run that is ended before
/// its last scenario has recorded the others.
#[derive(Debug)]
pub(super) struct Recorder {
    path: PathBuf,
    state: State,
}

impl Recorder {
    /// Creates a recorder for scenarios on the kernel `release`.
    ///
    /// # Errors
    ///
    /// Fails if the record cannot be read, before hours are spent on scenarios.
    pub(super) fn new(release: &str) -> Result<Self> {
        let recorder = Self {
            path: workspace::top().join(RECORD),
            state: State {
                release: release.to_owned(),
                commit: commit::name()?,
                date: commit::today()?,
            },
        };
        read(&recorder.path)?;
        Ok(recorder)
    }

    /// Adds a run in place of the previous entry of its scenario.
    pub(super) fn add(&self, run: &Run) -> Result<()> {
        let mut record = read(&self.path)?;
        let before = record.remove(run.name).and_then(|entry| entry.failed);
        record.insert(run.name.to_owned(), run.entry(&self.state, before));
        report::write_json(&self.path, &record)
    }
}

fn read(path: &Path) -> Result<Record> {
    match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged; restore it with git", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Record::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

impl Run {
    /// Takes the result of a scenario from its verdict.
    pub(super) fn new(scenario: &Scenario, quick: bool, verdict: Verdict) -> Self {
        Self {
            name: scenario.name,
            quick,
            seconds: verdict.took.as_secs_f64(),
            error: verdict.error.map(|error| format!("{error:#}")),
            targets: verdict.targets,
        }
    }

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
        let add = |run: Run, commit| {
            let (path, state) = (path.clone(), state(commit));
            Recorder { path, state }.add(&run).unwrap();
        };
        let read = || read(&path).unwrap();
        add(run("a", None), "one");
        add(run("b", Some("no page\nof ten")), "one");
        add(run("b", None), "two");
        let record = read();
        assert_eq!(record["a"].state, state("one"));
        let b = &record["b"];
        assert!(b.passed && b.state == state("two"));
        let failed = b.failed.as_ref().unwrap();
        assert_eq!(
            (failed.commit.as_str(), failed.error.as_str()),
            ("one", "no page")
        );
        add(run("a", Some("later")), "three");
        assert!(!read()["a"].passed && read()["b"] == record["b"]);
    }

    #[test]
    fn a_damaged_record_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scenarios.json");
        fs::write(&path, "{").unwrap();
        let recorder = Recorder {
            path: path.clone(),
            state: state("one"),
        };
        assert!(recorder.add(&run("a", None)).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{");
    }
}
