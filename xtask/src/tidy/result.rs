// SPDX-License-Identifier: GPL-2.0-only

//! Rows of the results that are kept by hand (`docs/developers/reliability.md` says what a row must
//! have).

use std::collections::BTreeMap;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::Source;

const HISTORY: &str = "docs/results/history.json";
const MUTATIONS: &str = "docs/results/mutations.json";
const DEFECTS: &str = "docs/results/defects.json";

/// Name of a mutation that was made by hand, for which there is no patch.
const UNNAMED: &str = "(no name)";

/// A run, or several runs that were counted together.
#[derive(Deserialize)]
#[expect(dead_code, reason = "the types of fields are checked by parsing")]
struct Run {
    kind: Kind,
    scenario: String,
    #[serde(default)]
    form: Option<Form>,
    #[serde(default)]
    date: Option<String>,
    #[serde(default)]
    recorded: Option<String>,
    #[serde(default)]
    commit: Option<String>,
    #[serde(default)]
    kernel: Option<String>,
    #[serde(default)]
    passed: Option<bool>,
    #[serde(default)]
    seconds: Option<u64>,
    #[serde(default)]
    note: Option<String>,
    /// What else the run showed, by name.
    #[serde(flatten)]
    figures: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Allocations,
    Bounds,
    #[serde(rename = "csan kernel")]
    CsanKernel,
    Debug,
    #[serde(rename = "debug kernel")]
    DebugKernel,
    Fuzz,
    #[serde(rename = "hardened kernel")]
    HardenedKernel,
    Hostile,
    Kernels,
    Migration,
    Policyd,
    Refused,
    Selftests,
    Tools,
    Torture,
    Versions,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    Quick,
    Whole,
}

impl Run {
    /// Returns what is wrong with the row.
    fn fault(&self) -> Option<String> {
        let Self {
            scenario,
            date,
            recorded,
            commit,
            figures,
            ..
        } = self;
        let is_figure = |(name, value): &(&String, &Value)| {
            let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            name.chars().all(is_name) && (value.is_number() || value.is_string())
        };
        if scenario.is_empty() {
            return Some("the scenario has no name".to_owned());
        }
        if date.is_none() && recorded.is_none() && commit.is_none() {
            return Some("neither date, recorded nor commit is given".to_owned());
        }
        if let Some((name, _)) = figures.iter().find(|figure| !is_figure(figure)) {
            return Some(format!("{name} is no figure"));
        }
        fault_of(date.as_deref(), recorded.as_deref())
    }
}

/// A mutation and its verdict.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the types of fields are checked by parsing")]
struct Mutation {
    mutation: String,
    #[serde(default)]
    breaks: Option<String>,
    #[serde(default)]
    invariant: Option<u32>,
    tried: bool,
    #[serde(default)]
    noticed: Option<bool>,
    #[serde(default)]
    scenario: Option<String>,
    #[serde(default)]
    said: Option<String>,
    #[serde(default)]
    seconds: Option<u64>,
    #[serde(default)]
    date: Option<String>,
    recorded: String,
    #[serde(default)]
    run: Option<String>,
    #[serde(default)]
    note: Option<String>,
    #[serde(default)]
    why_not_noticed: Option<String>,
    #[serde(default)]
    what_was_done: Option<String>,
    /// Whether the patch was removed.
    #[serde(default)]
    removed: bool,
}

impl Mutation {
    /// Returns what is wrong with the row.
    fn fault(&self, sources: &[Source]) -> Option<String> {
        let name = &self.mutation;
        let path = format!("tests/mutations/{name}.patch");
        let has_patch = sources.iter().any(|source| source.path == path);
        let is_explained = self.note.is_some() || self.why_not_noticed.is_some();
        let reason = match self.noticed {
            _ if !has_patch && !self.removed && name != UNNAMED => "there is no such patch",
            _ if has_patch && self.removed => "the patch was not removed",
            None if self.tried => "it was tried, but `noticed` is not given",
            Some(_) if !self.tried => "it was not tried, but `noticed` is given",
            Some(true) if self.scenario.is_none() => "it was noticed, but not by a scenario",
            None | Some(false) if !is_explained => "neither note nor why_not_noticed is given",
            _ => return fault_of(self.date.as_deref(), Some(&self.recorded)),
        };
        Some(format!("{name}: {reason}"))
    }
}

/// A defect that was found.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the types of fields are checked by parsing")]
struct Defect {
    r#in: Part,
    found_by: String,
    defect: String,
    fixed_by: String,
    recorded: String,
}

/// The part that had the defect.
#[derive(Deserialize)]
enum Part {
    DoubleDecker,
    #[serde(rename = "kernel")]
    Kernel,
    #[serde(rename = "emulator")]
    Emulator,
    #[serde(rename = "kernel or emulator")]
    Either,
    #[serde(rename = "tests")]
    Tests,
}

impl Defect {
    /// Returns what is wrong with the row.
    fn fault(&self) -> Option<String> {
        let texts = [&self.found_by, &self.defect, &self.fixed_by];
        match texts.iter().any(|text| text.is_empty()) {
            true => Some("a text is empty".to_owned()),
            false => fault_of(None, Some(&self.recorded)),
        }
    }
}

/// Returns what is wrong with the date of a row, which may be one of several, or with the commit
/// that added it.
fn fault_of(date: Option<&str>, recorded: Option<&str>) -> Option<String> {
    let is_digit = |at: usize, c: char| match at {
        4 | 7 => c == '-',
        _ => c.is_ascii_digit(),
    };
    let is_date = |one: &str| one.len() == 10 && one.char_indices().all(|(at, c)| is_digit(at, c));
    let is_commit = |name: &str| name.len() >= 7 && name.chars().all(|c| c.is_ascii_hexdigit());
    if let Some(date) = date.filter(|date| !date.split(" or ").all(is_date)) {
        return Some(format!("{date} is no date"));
    }
    let recorded = recorded.filter(|name| !is_commit(name))?;
    Some(format!("{recorded} is no commit"))
}

pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let mut broken = Vec::new();
    for source in sources {
        let path = source.path.as_str();
        let faults = match path {
            HISTORY => faults(&source.text, Run::fault),
            MUTATIONS => faults(&source.text, |row: &Mutation| row.fault(sources)),
            DEFECTS => faults(&source.text, Defect::fault),
            _ => continue,
        };
        broken.extend(faults.iter().map(|fault| format!("{path}: {fault}")));
    }
    broken
}

/// Returns what is wrong with the rows of a file, each with the number of the row.
fn faults<T: DeserializeOwned>(text: &str, fault: impl Fn(&T) -> Option<String>) -> Vec<String> {
    let rows: Vec<Value> = match serde_json::from_str(text) {
        Ok(rows) => rows,
        Err(error) => return vec![format!("this is no array of rows: {error}")],
    };
    let fault = |row| match serde_json::from_value(row) {
        Ok(row) => fault(&row),
        Err(error) => Some(error.to_string()),
    };
    let found = (1..).zip(rows).filter_map(|(number, row)| {
        let fault = fault(row)?;
        Some(format!("row {number}: {fault}"))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is wrong with a row of a file, beside a patch.
    fn of(path: &str, row: &str) -> String {
        let sources = [
            Source::new("tests/mutations/dirty-unseen.patch", ""),
            Source::new(path, &format!("[{{{row}}}]")),
        ];
        check(&sources).concat()
    }

    #[test]
    fn runs_are_checked() {
        let row = r#""kind": "fuzz", "scenario": "host", "date": "2026-01-02 or 2026-01-03""#;
        assert_eq!(of(HISTORY, row), "");
        assert_eq!(of(HISTORY, &format!(r#"{row}, "pages_read": 5"#)), "");
        for (more, fault) in [
            (r#", "pages read": 5"#, "pages read is no figure"),
            (r#", "pages_read": [5]"#, "pages_read is no figure"),
            (r#", "form": "short""#, "unknown variant `short`"),
            (r#", "seconds": "5""#, "invalid type"),
            (r#", "recorded": "yesterday""#, "yesterday is no commit"),
        ] {
            let found = of(HISTORY, &format!("{row}{more}"));
            assert!(found.contains(fault), "{found}");
        }
        let row = row.replace("date", "day");
        assert!(of(HISTORY, &row).contains("neither date"));
        assert!(of(HISTORY, r#""kind": "luck", "scenario": "a""#).contains("row 1: unknown"));
    }

    #[test]
    fn mutations_are_checked() {
        let row = r#""mutation": "dirty-unseen", "recorded": "1234567", "tried": true"#;
        let noticed = format!(r#"{row}, "noticed": true, "scenario": "torture""#);
        assert_eq!(of(MUTATIONS, &noticed), "");
        for (row, fault) in [
            (row.to_owned(), "`noticed` is not given"),
            (format!(r#"{row}, "noticed": true"#), "not by a scenario"),
            (format!(r#"{row}, "noticed": false"#), "neither note"),
            (format!(r#"{noticed}, "wait": 5"#), "unknown field `wait`"),
            (noticed.replace("dirty", "clean"), "no such patch"),
            (format!(r#"{noticed}, "removed": true"#), "was not removed"),
            (format!(r#"{noticed}, "date": "today""#), "today is no date"),
        ] {
            let found = of(MUTATIONS, &row);
            assert!(found.contains(fault), "{found}");
        }
    }

    #[test]
    fn defects_are_checked() {
        let row = r#""in": "tests", "found_by": "a", "defect": "b", "fixed_by": "c",
            "recorded": "1234567""#;
        assert_eq!(of(DEFECTS, row), "");
        assert!(of(DEFECTS, &row.replace("tests", "test")).contains("unknown variant"));
        assert!(of(DEFECTS, &row.replace("\"c\"", "\"\"")).contains("a text is empty"));
        assert!(of(DEFECTS, &row.replace("fixed_by", "fix")).contains("unknown field `fix`"));
        let sources = [Source::new(DEFECTS, "{}")];
        assert!(check(&sources).concat().contains("no array"));
    }
}
