// SPDX-License-Identifier: GPL-2.0-only

//! The page with the results on each kernel.

use std::fmt::Write as _;

use super::Record;

/// Formats the records as a table with a column for each kernel.
pub(super) fn markdown(records: &[Record]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for scenario in records.iter().flat_map(|record| &record.scenarios) {
        if !names.contains(&scenario.name.as_str()) {
            names.push(&scenario.name);
        }
    }
    let mut page = String::from(
        "# Kernels\n\nWritten by `cargo xtask matrix`, which runs the scenarios on each kernel \
         that is named as\nsupported. An empty field was not run there; a commit in a field \
         is that of a later run of the\nscenario alone. A scenario is marked if it failed in \
         the run and passed in a later one alone; other\nfailures are in \
         `docs/results/history.json`.\n\n| |",
    );
    let row = |page: &mut String, field: &dyn Fn(&Record) -> String| {
        for record in records {
            let _ = write!(page, " {} |", field(record));
        }
        page.push('\n');
    };
    row(&mut page, &|record| record.release.clone());
    page.push_str("|---|");
    page.push_str(&"---|".repeat(records.len()));
    page.push_str("\n| run |");
    row(&mut page, &|record| record.date.clone());
    page.push_str("| commit |");
    row(&mut page, &|record| record.commit.clone());
    let missing: Vec<String> = ddscenarios::all()
        .iter()
        .filter(|scenario| !names.contains(&scenario.name))
        .map(|scenario| format!("`{}`", scenario.name))
        .collect();
    for name in names {
        let _ = write!(page, "| `{name}` |");
        row(&mut page, &|record| {
            let found = record.scenarios.iter().find(|one| one.name == name);
            let Some(scenario) = found else {
                return String::new();
            };
            let verdict = match scenario.passed {
                true => "passed",
                false => "**failed**",
            };
            let mut field = verdict.to_owned();
            if let Some(commit) = &scenario.commit {
                let _ = write!(field, " ({commit})");
            }
            if let Some(commit) = scenario.failed.as_ref().filter(|_| scenario.passed) {
                let _ = write!(field, ", failed ({commit})");
            }
            field
        });
    }
    if !missing.is_empty() {
        let _ = writeln!(
            page,
            "\nScenarios of `cargo xtask test vm` that were not part of these runs:\n{}.",
            missing.join(", ")
        );
    }
    page
}
