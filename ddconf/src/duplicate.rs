// SPDX-License-Identifier: GPL-2.0-only

//! Reports both places of a key, or of a table's header, that occurs twice in a file.

use crate::Reader;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Returns the message for the second of two equal keys.
pub(crate) fn explain(reader: &Reader<'_>, table: &DeTable<'_>, second: &Range<usize>) -> String {
    let (header, first) = reader.line_and_same_before(second);
    let (name, first) = match header.starts_with('[') {
        true => (header, first),
        false => {
            let name = reader.text(second);
            let first = last_before(table, name, second.start);
            (name, first.map(|at| reader.line(&at)))
        }
    };
    match first {
        Some(line) => format!("`{name}` is in line {line} already"),
        None => format!("`{name}` is given twice"),
    }
}

/// Returns the last key of a name that begins before a place, at any depth.
fn last_before(table: &DeTable<'_>, name: &str, end: usize) -> Option<Range<usize>> {
    let within = |value: &DeValue<'_>| match value {
        DeValue::Table(below) => last_before(below, name, end),
        DeValue::Array(items) => {
            let tables = items.iter().filter_map(|item| item.get_ref().as_table());
            let found = tables.filter_map(|below| last_before(below, name, end));
            found.max_by_key(|at| at.start)
        }
        _ => None,
    };
    let found = table.iter().flat_map(|(key, value)| {
        let own = Some(key.span()).filter(|at| key.get_ref() == name && at.start < end);
        own.into_iter().chain(within(value.get_ref()))
    });
    found.max_by_key(|at| at.start)
}
