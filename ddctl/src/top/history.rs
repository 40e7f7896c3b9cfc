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
    /// The last readings, the newest last.
    steps: VecDeque<Step>,
    /// Pages that were requested, and those of them that were returned, in all steps.
    gets: u64,
    given: u64,
    /// All rates at the last reading.
    now: Rates,
}

/// What happened between two readings.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    /// Hits per second.
    hits: u32,
    /// Pages requested.
    gets: u32,
    /// Requested pages that were returned.
    given: u32,
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
        let more = |count: fn(&Counts) -> u64| count(&counts).saturating_sub(count(&self.last));
        let rate = |count: fn(&Counts) -> u64| {
            let more = more(count);
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
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let step = Step {
            // The conversion of floating-point numbers saturates.
            hits: self.now.hits.round() as u32,
            gets: narrow(more(|counts| counts.gets)),
            given: narrow(more(|counts| counts.given)),
        };
        self.last = counts;
        if self.steps.len() == LENGTH {
            let oldest = self.steps.pop_front().unwrap_or_default();
            self.gets -= u64::from(oldest.gets);
            self.given -= u64::from(oldest.given);
        }
        self.gets += u64::from(step.gets);
        self.given += u64::from(step.given);
        self.steps.push_back(step);
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
        let skipped = self.steps.len().saturating_sub(width);
        self.steps.iter().skip(skipped).map(|step| step.hits)
    }

    /// Returns the part of the pages requested in all these readings that were returned, or `None`
    /// without a request.
    pub(crate) fn hit_ratio(&self) -> Option<f64> {
        (self.gets > 0).then(|| self.given as f64 / self.gets as f64)
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
