// SPDX-License-Identifier: GPL-2.0-only

//! Order of the rows.

use super::{
    history::{Histories, History},
    reading::Row,
};
use std::cmp::Ordering;

/// Column by which rows are sorted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Column {
    Name,
    Weight,
    Used,
    Entitled,
    Ratio,
    Hits,
}

impl Column {
    /// The columns from left to right.
    pub(crate) const ALL: [Self; 6] = [
        Self::Name,
        Self::Weight,
        Self::Used,
        Self::Entitled,
        Self::Ratio,
        Self::Hits,
    ];

    /// Returns the column that a key selects.
    pub(crate) fn of_key(key: char) -> Option<Self> {
        Some(match key {
            'N' => Self::Name,
            'W' => Self::Weight,
            'U' => Self::Used,
            'E' => Self::Entitled,
            'R' => Self::Ratio,
            'H' => Self::Hits,
            _ => return None,
        })
    }

    /// Returns the neighbour to the right, or to the left, beginning again at the other end.
    pub(crate) fn neighbour(self, right: bool) -> Self {
        let count = Self::ALL.len();
        let at = Self::ALL.iter().position(|column| *column == self);
        let step = if right { 1 } else { count - 1 };
        Self::ALL[(at.unwrap_or_default() + step) % count]
    }
}

/// Order of the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// The column.
    pub(crate) column: Column,
    /// Whether the order of the column is inverted.
    pub(crate) inverted: bool,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            column: Column::Used,
            inverted: false,
        }
    }
}

impl Order {
    /// Returns whether small values come first: names do, unless the order is inverted.
    pub(crate) fn ascending(self) -> bool {
        (self.column == Column::Name) != self.inverted
    }

    /// Sorts rows. Rows with the same value are in the order of their numbers.
    pub(crate) fn sort(self, rows: &mut [&Row], histories: &Histories) {
        let hits = |row: &Row| histories.of(row.id).map_or(0.0, |one| one.now().hits);
        // A row without a request is below all others.
        let ratio = |row: &Row| {
            histories
                .of(row.id)
                .and_then(History::hit_ratio)
                .unwrap_or(-1.0)
        };
        rows.sort_by(|a, b| {
            let order = match self.column {
                Column::Name => a.name.cmp(&b.name),
                Column::Weight => a.weight.cmp(&b.weight),
                Column::Used => a.used.cmp(&b.used),
                Column::Entitled => a.entitled.cmp(&b.entitled),
                Column::Ratio => ratio(a).total_cmp(&ratio(b)),
                Column::Hits => hits(a).total_cmp(&hits(b)),
            };
            let order = match self.ascending() {
                true => order,
                false => order.reverse(),
            };
            match order {
                Ordering::Equal => a.id.cmp(&b.id),
                order => order,
            }
        });
    }
}
