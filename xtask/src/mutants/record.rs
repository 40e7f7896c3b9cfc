// SPDX-License-Identifier: GPL-2.0-only

//! The records of runs of cargo-mutants.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// All results, and the faults that are argued.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Records {
    /// One record for each file, or for each part of a file that was tried separately.
    files: Vec<Record>,
    /// Faults that break no promise, with the reason.
    argued: Vec<Argued>,
}

/// The results of the faults in a file.
#[derive(Debug, Deserialize, Serialize)]
struct Record {
    package: String,
    file: String,
    /// The part of the mutants that was tried, if not all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    commit: String,
    /// Day of the run, UTC, `YYYY-MM-DD`.
    date: String,
    mutants: usize,
    caught: usize,
    /// Faults with which a test did not end. They count as noticed.
    timeouts: usize,
    /// Faults that do not compile.
    unviable: usize,
    /// Faults that no test noticed, argued or not.
    survivors: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Argued {
    mutant: String,
    argument: String,
}

/// Identifies the part of the tree that was tried, and the time.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) shard: Option<String>,
    pub(super) commit: String,
    /// Day, UTC, `YYYY-MM-DD`.
    pub(super) date: String,
}

/// Faults that were neither noticed nor argued.
#[derive(Debug, Default)]
pub(super) struct Unnoticed {
    /// The files in which they are.
    pub(super) files: Vec<String>,
    /// Patterns of their names, as cargo-mutants writes them.
    pub(super) patterns: Vec<String>,
}

/// The part of cargo-mutants' `outcomes.json` that is used here.
#[derive(Debug, Deserialize)]
pub(super) struct Outcomes {
    outcomes: Vec<Outcome>,
}

#[derive(Debug, Deserialize)]
struct Outcome {
    scenario: Scenario,
    summary: Summary,
}

#[derive(Debug, Deserialize)]
enum Scenario {
    Baseline,
    Mutant(Mutant),
}

#[derive(Debug, Deserialize)]
struct Mutant {
    name: String,
    package: String,
    file: String,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
enum Summary {
    CaughtMutant,
    MissedMutant,
    Timeout,
    Unviable,
    /// The test of the unchanged tree.
    Success,
    Failure,
}

impl Mutant {
    /// Returns its name without line and column, which change with the code above.
    fn name(&self) -> String {
        let place = self.name.split(": ").next().unwrap_or_default();
        self.name.replacen(place, &self.file, 1)
    }
}

impl Record {
    fn count(&mut self, summary: Summary, name: String) {
        match summary {
            Summary::CaughtMutant => self.caught += 1,
            Summary::Timeout => self.timeouts += 1,
            Summary::Unviable => self.unviable += 1,
            Summary::MissedMutant | Summary::Success | Summary::Failure => {
                self.survivors.push(name);
            }
        }
    }
}

impl Records {
    pub(super) fn read(path: &Path) -> Result<Self> {
        match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text)
                .with_context(|| format!("{} is damaged; restore it from git", path.display())),
            Err(_) => Ok(Self::default()),
        }
    }

    /// Merges a run. Existing records of the same files are replaced, unless they are of another
    /// part of them. Returns the faults that were neither noticed nor argued.
    pub(super) fn merge(&mut self, outcomes: &Outcomes, run: &Run) -> Vec<String> {
        let mut newer: BTreeMap<&str, Record> = BTreeMap::new();
        for outcome in &outcomes.outcomes {
            let Scenario::Mutant(mutant) = &outcome.scenario else {
                continue;
            };
            let record = newer.entry(&mutant.file).or_insert_with(|| Record {
                package: mutant.package.clone(),
                file: mutant.file.clone(),
                shard: run.shard.clone(),
                commit: run.commit.clone(),
                date: run.date.clone(),
                mutants: 0,
                caught: 0,
                timeouts: 0,
                unviable: 0,
                survivors: Vec::new(),
            });
            record.mutants += 1;
            record.count(outcome.summary, mutant.name());
        }
        let survivors = newer.values().flat_map(|record| &record.survivors);
        let unknown = survivors.filter(|mutant| self.argument(mutant).is_none());
        let unnoticed = unknown.cloned().collect();
        for record in newer.into_values() {
            let whole = record.shard.is_none();
            self.files.retain(|old| {
                old.file != record.file
                    || (!whole && old.shard.is_some() && old.shard != record.shard)
            });
            self.files.push(record);
        }
        let key = |one: &Record| (one.package.clone(), one.file.clone(), one.shard.clone());
        self.files.sort_by_key(key);
        unnoticed
    }

    /// Merges a run of known survivors. Returns those that survived again and are not argued.
    pub(super) fn retried(&mut self, outcomes: &Outcomes, run: &Run) -> Vec<String> {
        let mut results: BTreeMap<String, Vec<Summary>> = BTreeMap::new();
        for outcome in &outcomes.outcomes {
            if let Scenario::Mutant(mutant) = &outcome.scenario {
                results
                    .entry(mutant.name())
                    .or_default()
                    .push(outcome.summary);
            }
        }
        // Two faults of the same name differ only in their lines. The one that was missed comes
        // first.
        for summaries in results.values_mut() {
            summaries.sort_by_key(|summary| *summary == Summary::MissedMutant);
        }
        for record in &mut self.files {
            for name in std::mem::take(&mut record.survivors) {
                match results.get_mut(&name).and_then(Vec::pop) {
                    Some(summary) => {
                        record.count(summary, name);
                        record.commit.clone_from(&run.commit);
                        record.date.clone_from(&run.date);
                    }
                    None => record.survivors.push(name),
                }
            }
        }
        let survivors = self.files.iter().flat_map(|record| &record.survivors);
        let unnoticed = survivors.filter(|mutant| self.argument(mutant).is_none());
        unnoticed.cloned().collect()
    }

    /// Returns the survivors of a package that are not argued.
    pub(super) fn unnoticed(&self, package: &str) -> Unnoticed {
        let of = |record: &&Record| record.package == package;
        let files = self.files.iter().filter(of);
        let survivors = files.flat_map(|record| &record.survivors);
        let unknown = survivors.filter(|mutant| self.argument(mutant).is_none());
        let mut found = Unnoticed::default();
        for mutant in unknown {
            let (file, what) = mutant.split_once(": ").unwrap_or(("", mutant));
            if !found.files.iter().any(|known| known == file) {
                found.files.push(file.to_owned());
            }
            let [file, what] = [file, what].map(regex::escape);
            found.patterns.push(format!("^{file}:\\d+:\\d+: {what}$"));
        }
        found
    }

    fn argument(&self, mutant: &str) -> Option<&str> {
        let known = self.argued.iter().find(|one| one.mutant == mutant);
        known.map(|one| one.argument.as_str())
    }

    /// Returns a line for each package.
    pub(super) fn summary(&self) -> String {
        let mut packages: BTreeMap<&str, [usize; 5]> = BTreeMap::new();
        for one in &self.files {
            let sums = packages.entry(&one.package).or_default();
            let argued = one.survivors.iter();
            let argued = argued.filter(|mutant| self.argument(mutant).is_some());
            let counts = [
                one.mutants,
                one.caught + one.timeouts,
                one.unviable,
                one.survivors.len(),
                argued.count(),
            ];
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += count;
            }
        }
        let mut text = String::new();
        for (package, [mutants, noticed, unviable, survivors, argued]) in packages {
            let _ = writeln!(
                text,
                "{package}: {mutants} tried, {noticed} noticed, {unviable} do not compile, \
                 {survivors} not noticed ({argued} argued)"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "ddnl/src/call.rs";

    fn outcomes(mutants: &[(&str, &str)]) -> Outcomes {
        let one = |(name, summary): &(&str, &str)| {
            serde_json::json!({
                "scenario": { "Mutant": {
                    "name": format!("{FILE}:7:5: {name}"), "package": "ddnl", "file": FILE,
                } },
                "summary": summary,
            })
        };
        let baseline = serde_json::json!({ "scenario": "Baseline", "summary": "Success" });
        let all: Vec<_> = mutants.iter().map(one).chain([baseline]).collect();
        serde_json::from_value(serde_json::json!({ "outcomes": all })).unwrap()
    }

    #[test]
    fn faults_that_are_not_noticed_must_be_argued() {
        let mut records = Records::default();
        let found = outcomes(&[
            ("replace a", "CaughtMutant"),
            ("replace b", "MissedMutant"),
            ("replace c", "Unviable"),
            ("replace d", "Timeout"),
        ]);
        let name = format!("{FILE}: replace b");
        let run = Run::default();
        assert_eq!(records.merge(&found, &run), std::slice::from_ref(&name));
        records.argued.push(Argued {
            mutant: name,
            argument: "it is the same".to_owned(),
        });
        assert!(records.merge(&found, &run).is_empty());
        assert_eq!(
            records.summary(),
            "ddnl: 4 tried, 2 noticed, 1 do not compile, 1 not noticed (1 argued)\n"
        );
    }

    #[test]
    fn parts_of_a_file_stay_beside_each_other() {
        let mut records = Records::default();
        let found = outcomes(&[("replace a", "CaughtMutant")]);
        let part = |shard: Option<&str>| Run {
            shard: shard.map(str::to_owned),
            ..Run::default()
        };
        for shard in ["0/2", "1/2", "0/2"] {
            records.merge(&found, &part(Some(shard)));
        }
        assert_eq!(records.files.len(), 2);
        records.merge(&found, &part(None));
        assert_eq!(records.files.len(), 1);
    }

    #[test]
    fn survivors_are_tried_again_alone() {
        let mut records = Records::default();
        let missed = [
            ("replace a", "MissedMutant"),
            ("replace (b)", "MissedMutant"),
            ("replace (b)", "CaughtMutant"),
        ];
        records.merge(&outcomes(&missed), &Run::default());
        let found = records.unnoticed("ddnl");
        let pattern = r"^ddnl/src/call\.rs:\d+:\d+: replace \(b\)$";
        assert_eq!(found.patterns[1], pattern);
        assert_eq!(found.files, [FILE]);
        let again = outcomes(&[
            ("replace a", "CaughtMutant"),
            ("replace (b)", "MissedMutant"),
            ("replace (b)", "CaughtMutant"),
        ]);
        let left = records.retried(&again, &Run::default());
        assert_eq!(left, [format!("{FILE}: replace (b)")]);
        assert_eq!((records.files[0].caught, records.files[0].mutants), (2, 3));
    }
}
