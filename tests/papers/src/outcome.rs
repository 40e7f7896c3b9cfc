// SPDX-License-Identifier: GPL-2.0-only

//! Results of the papers' figures, as a table for the report and for `docs/developers/papers.md`.

use crate::figure::Figure;
use crate::verdict::{Band, Verdict, judge, told};

/// A line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the figure.
    pub name: &'static str,
    /// The verdict.
    pub verdict: Verdict,
    /// Deviations from the paper, or numbers within their band and far from the paper's.
    pub off: String,
}

/// Returns a line for each figure.
pub fn rows(figures: &[Figure]) -> Vec<Row> {
    let row = |figure: &Figure| {
        let judgement = judge(figure);
        Row {
            name: figure.name,
            verdict: judgement.verdict,
            off: match judgement.off.is_empty() {
                true => far(figure),
                false => judgement.off.join("; "),
            },
        }
    };
    figures.iter().map(row).collect()
}

/// Factor from which on a number within its band is mentioned.
const FAR: f64 = 1.5;

/// Returns the numbers that are within their factor and not close to the paper's.
fn far(figure: &Figure) -> String {
    let far = figure.compared.iter().filter(|row| {
        let by = row.paper.map_or(1.0, |paper| row.ours / paper);
        matches!(row.band, Band::Times(_) | Band::Gain) && by.max(1.0 / by) > FAR
    });
    let far: Vec<String> = far.map(told).collect();
    match far.is_empty() {
        true => String::new(),
        false => format!("within a factor of two: {}", far.join("; ")),
    }
}

/// The text before the results in `docs/developers/papers.md`, with the table of inputs.
pub(crate) const HEAD: &str = include_str!("papers.md");

/// Returns the rows of the table of inputs, with the head of the table: the quantity, its value,
/// its source, and its derivation.
pub(crate) fn inputs() -> impl Iterator<Item = Vec<&'static str>> {
    let rows = HEAD.lines().filter_map(|line| line.strip_prefix("| "));
    rows.map(|row| row.trim_end_matches(" |").split(" | ").collect())
}

/// Returns the text of `docs/developers/papers.md`.
pub fn document(figures: &[Figure]) -> String {
    let mut text = String::from(HEAD);
    text += "\n## What came out\n\n| figure | verdict | not as in the paper, or far from it |\n|---|---|---|\n";
    for row in rows(figures) {
        text += &format!("| {} | {} | {} |\n", row.name, row.verdict.name(), row.off);
    }
    text += "\n## What each run shows\n\n";
    for figure in figures {
        text += &format!("- {}: {}\n", figure.name, figure.note);
    }
    text
}
