// SPDX-License-Identifier: GPL-2.0-only

//! Configuration files of the daemons, and sizes as people write them.
//!
//! - [`parse`] reads a TOML text and reports every problem with its place, not only the first;
//! - [`reader`] reads its tables: types, bounds, and keys that do not exist;
//! - [`address`] parses addresses of pages for Prometheus;
//! - [`size`] parses sizes, for files and for command lines alike.

#![forbid(unsafe_code)]

pub mod address;
mod duplicate;
mod problem;
pub mod reader;
pub mod size;

pub use problem::{Problem, list};
pub use reader::{Reader, Section};

use toml::de::DeTable;

/// Parses a text and passes its top table to `read`. Returns all problems, ordered by place, if
/// there is one.
pub fn parse<T>(
    text: &str,
    read: impl FnOnce(&mut Reader<'_>, &DeTable<'_>) -> T,
) -> Result<T, Vec<Problem>> {
    let mut reader = Reader::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().unwrap_or_default();
        let message = match error.message() {
            "duplicate key" => duplicate::explain(&reader, table.get_ref(), &at),
            message => message.into(),
        };
        reader.problem(at, message);
    }
    // The rest of a text with a syntax error is not checked, because guesses would add wrong
    // complaints.
    let read = reader
        .problems
        .is_empty()
        .then(|| read(&mut reader, table.get_ref()));
    reader.problems.sort();
    match read {
        Some(read) if reader.problems.is_empty() => Ok(read),
        _ => Err(reader.problems),
    }
}
