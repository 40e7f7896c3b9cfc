// SPDX-License-Identifier: GPL-2.0-only

//! Output of verbs, as text and as JSON.

use crate::{context::Context, error::Result, paragraph::paragraph};
use ddnl::{printable_json, schema::versioned};
use serde::Serialize;
use serde_json::{Value, json};

/// One output of a verb in both forms.
pub(crate) struct Frame {
    pub(crate) json: Value,
    pub(crate) text: String,
}

impl Frame {
    /// Creates an output from its text and its report, which becomes JSON with the version of the
    /// schema.
    pub(crate) fn new(text: impl Into<String>, report: &impl Serialize) -> Self {
        Self {
            json: versioned(json!(report)),
            text: text.into(),
        }
    }

    /// Creates the output of a verb that changed something: one line of text, and JSON.
    pub(crate) fn done(text: impl Into<String>, report: &impl Serialize) -> Self {
        let mut text = text.into();
        text.push('\n');
        Self::new(text, report)
    }

    /// Prints the form that the user asked for.
    pub(crate) fn print(self, context: &mut Context<'_>) -> Result<()> {
        // A single write, because standard output is line-buffered.
        let text = match context.json {
            true => printable_json(&format!("{:#}\n", self.json)).into_owned(),
            false => self.text,
        };
        Ok(context.out.write_all(text.as_bytes())?)
    }
}

/// Names and values, one pair per line, with the values aligned.
#[derive(Default)]
pub(crate) struct Properties(Vec<(String, String)>);

impl Properties {
    pub(crate) fn add(&mut self, name: &str, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    /// Returns the text for a terminal with this number of columns.
    pub(crate) fn text(&self, columns: usize) -> String {
        let width = self.0.iter().map(|(name, _)| name.chars().count()).max();
        let width = width.unwrap_or_default();
        let lines = self.0.iter().map(|(name, value)| {
            let mark = format!("{name:width$}  ");
            paragraph(&mark, value, columns)
        });
        lines.collect()
    }
}

/// Formats a ratio in percent, or a dash for none.
pub(crate) fn show_ratio(ratio: Option<f64>) -> String {
    match ratio {
        Some(ratio) => format!("{:.1} %", ratio * 100.0),
        None => "-".into(),
    }
}

/// Replaces control and invisible characters in a text that other users can choose.
pub(crate) fn printable(text: &str) -> String {
    ddnl::printable(text).into_owned()
}
