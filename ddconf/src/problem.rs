// SPDX-License-Identifier: GPL-2.0-only

//! Problems of a file, with their places.

use std::{fmt, path::Path};

/// A problem in a line of a file.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// Describes the mistake and the valid values.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            column,
            message,
        } = self;
        write!(f, "line {line}, column {column}: {message}")
    }
}

/// Returns the problems of a file as text: one line for each, with the file's path.
pub fn list(path: &Path, problems: &[Problem]) -> String {
    let lines: Vec<String> = problems
        .iter()
        .map(|problem| format!("{}: {problem}", path.display()))
        .collect();
    lines.join("\n")
}
