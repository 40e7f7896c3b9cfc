// SPDX-License-Identifier: GPL-2.0-only

//! What a dry run found out.

use crate::engine::Report;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// The changes that the daemon would make, and the state before them.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct DryRunReport {
    /// The changes, in words.
    pub changes: Vec<String>,
    /// The measurements and the verdicts.
    pub report: Report,
}

/// For people.
impl fmt::Display for DryRunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.changes.len() {
            0 => writeln!(f, "nothing would be changed")?,
            _ => writeln!(f, "these changes would be made:")?,
        }
        for change in &self.changes {
            writeln!(f, "  {change}")?;
        }
        write!(f, "\n{}", self.report)
    }
}
