// SPDX-License-Identifier: GPL-2.0-only

//! The uniform report: targets and measured figures.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// A promised figure and its value in this run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Target {
    /// The measured quantity. It is the same in every run, so that records can be compared; numbers
    /// of this run belong into the detail.
    pub name: String,
    /// The promise for people, with its unit and direction.
    pub target: String,
    /// The figure with its unit.
    pub measured: String,
    /// Whether the promise is kept.
    pub met: bool,
    /// What else this run shows about the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Target {
    /// Returns a target that the caller has judged.
    pub fn new(
        name: impl Into<String>,
        target: impl Into<String>,
        measured: impl Into<String>,
        met: bool,
    ) -> Self {
        Self {
            name: name.into(),
            target: target.into(),
            measured: measured.into(),
            met,
            detail: None,
        }
    }

    /// Returns the target with a detail of this run.
    #[must_use]
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Self {
            detail: Some(detail.into()),
            ..self
        }
    }

    /// Returns the target of a count that must be zero.
    pub fn none(name: impl Into<String>, count: impl TryInto<u64>) -> Self {
        Self::at_most(name, 0.0, counted(count), "")
    }

    /// Returns the target of a count that must not be zero.
    pub fn some(name: impl Into<String>, count: impl TryInto<u64>) -> Self {
        Self::at_least(name, 1.0, counted(count), "")
    }

    /// Returns the target of a figure that must be at least `least`. An absent figure misses it.
    pub fn at_least(
        name: impl Into<String>,
        least: f64,
        measured: impl Into<Option<f64>>,
        unit: &str,
    ) -> Self {
        let measured = measured.into();
        Self::new(
            name,
            figure("≥ ", least, unit),
            figure_or_none(measured, unit),
            measured.is_some_and(|measured| measured >= least),
        )
    }

    /// Returns the target of a figure that must be at most `limit`. An absent figure misses it.
    pub fn at_most(
        name: impl Into<String>,
        limit: f64,
        measured: impl Into<Option<f64>>,
        unit: &str,
    ) -> Self {
        let measured = measured.into();
        Self::new(
            name,
            figure("≤ ", limit, unit),
            figure_or_none(measured, unit),
            measured.is_some_and(|measured| measured <= limit),
        )
    }
}

/// Returns a count as a figure.
fn counted(count: impl TryInto<u64>) -> f64 {
    count.try_into().map_or(f64::INFINITY, |count| count as f64)
}

/// Returns whether there are promises and all are kept.
#[must_use]
pub fn all_met(targets: &[Target]) -> bool {
    !targets.is_empty() && targets.iter().all(|target| target.met)
}

fn figure_or_none(value: Option<f64>, unit: &str) -> String {
    value.map_or_else(
        || "not measured".to_owned(),
        |value| figure("", value, unit),
    )
}

fn figure(sign: &str, value: f64, unit: &str) -> String {
    let mut text = format!("{sign}{value:.2}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    if !unit.is_empty() {
        let _ = write!(text, " {unit}");
    }
    text
}

/// Returns the targets as a table for people, which is empty without targets. Details are at the
/// ends of the lines, so that the columns stay narrow.
#[must_use]
pub fn table(targets: &[Target]) -> String {
    if targets.is_empty() {
        return String::new();
    }
    let width = |head: &str, field: fn(&Target) -> &str| {
        let longest = targets.iter().map(|row| field(row).chars().count()).max();
        longest.unwrap_or(0).max(head.len())
    };
    let name = width("name", |row| &row.name);
    let target = width("target", |row| &row.target);
    let measured = width("measured", |row| &row.measured);
    let mut text = format!(
        "{:name$}  {:target$}  {:measured$}  met\n",
        "name", "target", "measured"
    );
    for row in targets {
        let met = if row.met { "yes" } else { "NO" };
        let _ = write!(
            text,
            "{:name$}  {:target$}  {:measured$}  {met}",
            row.name, row.target, row.measured
        );
        let _ = match &row.detail {
            Some(detail) => writeln!(text, "{:gap$}{detail}", "", gap = 5 - met.len()),
            None => writeln!(text),
        };
    }
    text
}

/// Writes a verb's `result.json` through a temporary name, so that a reader never sees a part of
/// it.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    }
    let temporary = path.with_extension("json.new");
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    fs::write(&temporary, text)
        .and_then(|()| fs::rename(&temporary, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let target = Target::at_least("hits", 99.0, 99.519, "%");
        assert_eq!(target.target, "≥ 99 %");
        assert_eq!(target.measured, "99.52 %");
        assert!(target.met);
        assert!(!Target::at_most("exits", 1.0, 2.0, "").met);
        assert_eq!(Target::at_most("exits", 100.0, 200.0, "").measured, "200");
    }

    #[test]
    fn absent_figures_miss_their_targets() {
        let targets = [
            Target::at_least("a", 1.0, None, "x"),
            Target::at_most("b", 1.0, None, "x"),
        ];
        assert!(targets.iter().all(|one| !one.met));
        assert_eq!(targets[0].measured, "not measured");
        assert!(!all_met(&targets) && !all_met(&[]));
        assert!(all_met(&[Target::at_most("b", 1.0, 0.5, "x")]));
    }

    #[test]
    fn details_are_beside_the_name() {
        let plain = Target::none("wrong reads", 0_u64);
        let detailed = plain.clone().detail("of 500");
        assert_eq!(detailed.name, plain.name);
        let missed = Target::some("hits", 0_u64).detail("of 7");
        let text = table(&[plain.clone(), detailed.clone(), missed]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1].trim_end(), "wrong reads  ≤ 0     0         yes");
        assert_eq!(lines[2], "wrong reads  ≤ 0     0         yes  of 500");
        assert_eq!(lines[3], "hits         ≥ 1     0         NO   of 7");
        // Records from before there were details are still read.
        let json = serde_json::to_value(&plain).unwrap();
        assert!(json.get("detail").is_none());
        assert_eq!(serde_json::from_value::<Target>(json).unwrap(), plain);
        let json = serde_json::to_value(&detailed).unwrap();
        assert_eq!(serde_json::from_value::<Target>(json).unwrap(), detailed);
    }

    #[test]
    fn the_table_is_aligned() {
        let text = table(&[Target::new("a name", "≥ 1", "2", true)]);
        assert_eq!(
            text,
            "name    target  measured  met\na name  ≥ 1     2         yes\n"
        );
    }
}
