// SPDX-License-Identifier: GPL-2.0-only

//! Finds out which kind of memory helps a container.
//!
//! Redis, and databases with a cache of their own, depend on anonymous memory. No store of file
//! pages helps them, only memory of the guest (DoubleDecker, section 5.2.1). Readers of files are
//! the reverse: the store can keep the pages that the guest reclaims from them.

use super::{rates::Rates, sample::Reading};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of memory that helps a container.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Character {
    /// Guest memory only.
    Anonymous,
    /// The store as well as guest memory.
    File,
    /// Both, or too little is known.
    #[default]
    Mixed,
}

/// Watches a container. Its character changes only after several measurements agree.
#[derive(Clone, Debug, Default)]
pub(super) struct Observer {
    character: Character,
    other: Character,
    times: u32,
}

/// Consecutive measurements that establish a new character.
const TIMES: u32 = 3;
/// Part of the activity from which on a kind of memory prevails.
const PREVAILING: f64 = 0.6;
/// Pages a second that count as activity.
const SOME: f64 = 1.0;

impl Observer {
    pub(super) const fn character(&self) -> Character {
        self.character
    }

    /// Adds a measurement.
    pub(super) fn observe(&mut self, reading: &Reading, rates: &Rates) {
        let seen = look(reading, rates);
        if seen == self.character {
            self.times = 0;
        } else if seen == self.other {
            self.times += 1;
        } else {
            self.other = seen;
            self.times = 1;
        }
        if self.times >= TIMES {
            self.character = seen;
            self.times = 0;
        }
    }
}

fn look(reading: &Reading, rates: &Rates) -> Character {
    let memory = reading.anon.saturating_add(reading.file).max(1) as f64;
    let anon = reading.anon as f64 / memory;
    let reads = rates.wanted;
    if anon >= PREVAILING && reads <= rates.refaults_anon.max(SOME) {
        Character::Anonymous
    } else if anon < PREVAILING && reads > SOME {
        Character::File
    } else {
        Character::Mixed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(anon: u64, file: u64) -> Reading {
        Reading {
            anon,
            file,
            ..Reading::default()
        }
    }

    #[test]
    fn servers_are_distinguished() {
        let busy = Rates {
            wanted: 500.0,
            ..Rates::default()
        };
        let swapping = Rates {
            refaults_anon: 500.0,
            wanted: 3.0,
            ..Rates::default()
        };
        let idle = Rates::default();
        assert_eq!(look(&reading(900, 100), &idle), Character::Anonymous);
        assert_eq!(look(&reading(900, 100), &swapping), Character::Anonymous);
        assert_eq!(look(&reading(100, 900), &busy), Character::File);
        assert_eq!(look(&reading(900, 100), &busy), Character::Mixed);
        assert_eq!(look(&reading(0, 0), &idle), Character::Mixed);
    }

    #[test]
    fn one_measurement_does_not_change_the_character() {
        let mut observer = Observer::default();
        for times in 0..3 {
            assert_eq!(observer.character(), Character::Mixed, "{times}");
            observer.observe(&reading(9, 1), &Rates::default());
        }
        assert_eq!(observer.character(), Character::Anonymous);
        observer.observe(&reading(5, 5), &Rates::default());
        assert_eq!(observer.character(), Character::Anonymous);
    }
}
