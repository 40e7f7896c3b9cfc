// SPDX-License-Identifier: GPL-2.0-only

//! The mutations, the scenarios that notice them, and the messages with which they do.

use std::sync::LazyLock;

use ddlab::Scenario;

/// A mutation, which breaks an invariant.
pub(crate) struct Mutation {
    /// Name of its patch in `tests/mutations`.
    pub(crate) name: &'static str,
    /// The scenarios that may notice it, the fastest first.
    pub(crate) scenarios: Vec<Scenario>,
    /// Texts of which one is in the error of a scenario that noticed this mutation, and in no
    /// other.
    pub(super) reasons: Vec<&'static str>,
}

/// All mutations, in the order in which they are tried.
pub(crate) static ALL: LazyLock<Vec<Mutation>> = LazyLock::new(|| {
    let lines = include_str!("../../../mutations/noticed.txt").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(mutation).collect()
});

/// Reads a line of the list, which is a part of the program.
fn mutation(line: &'static str) -> Mutation {
    let mut cells = line.split(" | ");
    let mut cell = || {
        cells
            .next()
            .unwrap_or_else(|| panic!("a short line: {line}"))
    };
    let (name, scenarios) = (cell(), cell());
    let scenario = |name| {
        let all = [crate::all(), crate::by_name()].into_iter().flatten();
        let found = all.copied().find(|one| one.name == name);
        found.unwrap_or_else(|| panic!("no scenario {name}: {line}"))
    };
    Mutation {
        name,
        scenarios: scenarios.split(' ').map(scenario).collect(),
        reasons: cells.collect(),
    }
}
