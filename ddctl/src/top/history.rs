// SPDX-License-Identifier: GPL-2.0-only

//! Rates of rows over the last readings.

use super::reading::{Counts, Row};
use std::collections::{BTreeMap, VecDeque};

/// Readings that a history keeps.
pub(crate) const LENGTH: usize = 60;

/// Rates of one row.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    last: Counts,
    /// Hits per second, the newest last.
    hits: VecDeque<u32>,
    /// All rates at the last reading.
    now: Rates,
}

/// Pages per second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// Requested pages that were returned.
    pub(crate) hits: f64,
    /// Pages stored.
    pub(crate) puts: f64,
    /// Pages refused.
    pub(crate) refused: f64,
    /// Pages evicted.
    pub(crate) evicted: f64,
}

impl History {
    /// Adds the counters that were read `seconds` after the previous ones.
    pub(crate) fn add(&mut self, counts: Counts, seconds: f64) {
        // A module that is loaded again counts from zero.
        let rate = |count: fn(&Counts) -> u64| {
            let more = count(&counts).saturating_sub(count(&self.last));
            if seconds > 0.0 {
                more as f64 / seconds
            } else {
                0.0
            }
        };
        self.now = Rates {
            hits: rate(|counts| counts.given),
            puts: rate(|counts| counts.puts),
            refused: rate(|counts| counts.refused),
            evicted: rate(|counts| counts.evicted),
        };
        self.last = counts;
        if self.hits.len() == LENGTH {
            self.hits.pop_front();
        }
        // The conversion of floating-point numbers saturates.
        self.hits.push_back(self.now.hits.round() as u32);
    }

    /// Starts a history whose counters have no rates yet.
    pub(crate) fn new(counts: Counts) -> Self {
        Self {
            last: counts,
            ..Self::default()
        }
    }

    /// Returns the rates at the last reading.
    pub(crate) fn now(&self) -> Rates {
        self.now
    }

    /// Returns the last hits per second, at most `width` of them.
    pub(crate) fn hits(&self, width: usize) -> impl Iterator<Item = u32> {
        let skipped = self.hits.len().saturating_sub(width);
        self.hits.iter().skip(skipped).copied()
    }
}

/// Histories by the numbers of rows.
#[derive(Debug, Default)]
pub(crate) struct Histories(BTreeMap<u32, History>);

impl Histories {
    /// Adds a reading. Rows that are not part of it are forgotten.
    pub(crate) fn add(&mut self, rows: &[Row], seconds: Option<f64>) {
        let mut before = std::mem::take(&mut self.0);
        for row in rows {
            let history = match (before.remove(&row.id), seconds) {
                (Some(mut history), Some(seconds)) => {
                    history.add(row.counts, seconds);
                    history
                }
                _ => History::new(row.counts),
            };
            self.0.insert(row.id, history);
        }
    }

    /// Returns the history of a row.
    pub(crate) fn of(&self, id: u32) -> Option<&History> {
        self.0.get(&id)
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
