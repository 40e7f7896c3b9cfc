// SPDX-License-Identifier: GPL-2.0-only

//! Key-value stores under YCSB, with records in files or in the memory of a process. The popularity
//! of records follows Zipf's law with exponent 0.99.
//!
//! [`KeyValue::loaded`] follows YCSB: a load phase inserts all records, of 1 KB each, in the order
//! of a hash, so that popular and unpopular records are mixed in each place. Then requests begin.

use super::{ANONYMOUS, Step, Workload};
use crate::parameters::{RECORDS, SECOND, UNITS_PER_MIB};
use crate::random::{Random, Zipf};

/// Units of one file of a database.
const FILE: u32 = 4096;

/// YCSB's exponent.
const EXPONENT: f64 = 0.99;

/// A store.
#[derive(Debug)]
pub struct KeyValue {
    zipf: Zipf,
    units: u32,
    /// Number of units that the load phase still has to write.
    unloaded: u32,
    work: u64,
    anonymous: bool,
    writes: f64,
    think: u64,
    /// Number of places that an operation touches.
    touched: u32,
}

impl KeyValue {
    /// Creates a store over `mib` MiB of files, like MongoDB. An operation takes `work` nanoseconds
    /// of processor time.
    pub fn of_files(mib: u64, work: u64, seed: u64) -> Self {
        let units = (mib * UNITS_PER_MIB) as u32;
        Self {
            zipf: Zipf::new(units, EXPONENT, seed),
            units,
            unloaded: 0,
            work,
            anonymous: false,
            writes: 0.05,
            think: 0,
            touched: 1,
        }
    }

    /// Creates a store of `mib` MiB in anonymous memory, like Redis. It is swapped if it does not
    /// fit.
    pub fn in_memory(mib: u64, work: u64, seed: u64) -> Self {
        Self {
            anonymous: true,
            writes: 0.0,
            ..Self::of_files(mib, work, seed)
        }
    }

    /// Fills the store first, with records placed by a hash. Only the first thread does this; the
    /// others wait.
    #[must_use]
    pub fn loaded(mut self, seed: u64) -> Self {
        self.zipf = Zipf::of_places(self.units, RECORDS, EXPONENT, seed);
        self.unloaded = self.units;
        self
    }

    /// Makes an operation touch `places` places, for stores in which the parts of a record are not
    /// adjacent.
    #[must_use]
    pub const fn scattered(mut self, places: u32) -> Self {
        self.touched = places;
        self
    }

    /// Makes the store read-only, with clients that wait `think` nanoseconds between requests.
    #[must_use]
    pub const fn read_slowly(mut self, think: u64) -> Self {
        self.writes = 0.0;
        self.think = think;
        self
    }
}

impl Workload for KeyValue {
    fn next(&mut self, thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        let kind = if self.anonymous { ANONYMOUS } else { 0 };
        if self.unloaded > 0 {
            steps.push(match thread {
                0 => {
                    let first = self.units - self.unloaded;
                    let count = self.unloaded.min(UNITS_PER_MIB as u32);
                    self.unloaded -= count;
                    Step::write((first / FILE) | kind, first % FILE, count)
                }
                _ => Step::Wait(SECOND),
            });
            return;
        }
        if self.think > 0 {
            steps.push(Step::Wait(self.think));
        }
        steps.push(Step::Work(self.work));
        for _ in 0..self.touched {
            let unit = self.zipf.next(random);
            let file = (unit / FILE) | kind;
            if random.unit() < self.writes {
                steps.push(Step::write(file, unit % FILE, 1));
            } else {
                steps.push(Step::read(file, unit % FILE, 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_written_once_and_then_read() {
        let mut store = KeyValue::in_memory(3, 1, 1).loaded(1);
        let (mut random, mut steps) = (Random::new(1), Vec::new());
        for _ in 0..3 {
            store.next(1, &mut random, &mut steps);
            assert_eq!(steps, [Step::Wait(SECOND)]);
            steps.clear();
            store.next(0, &mut random, &mut steps);
            assert!(matches!(
                steps[..],
                [Step::Write {
                    file: ANONYMOUS,
                    units: 64,
                    ..
                }]
            ));
            steps.clear();
        }
        store.next(0, &mut random, &mut steps);
        assert!(matches!(steps[..], [Step::Work(1), Step::Read { .. }]));
    }
}
