// SPDX-License-Identifier: GPL-2.0

//! Key-value stores under YCSB: Zipf's popularity, exponent 0.99, over records in files or in the
//! memory of a process.

use super::{ANONYMOUS, Step, Workload};
use crate::parameters::UNITS_PER_MIB;
use crate::random::{Random, Zipf};

/// Units of one file of a database.
const FILE: u32 = 4096;

/// A store.
#[derive(Debug)]
pub struct KeyValue {
    zipf: Zipf,
    work: u64,
    anonymous: bool,
    writes: f64,
    think: u64,
}

impl KeyValue {
    /// A store over `mib` MiB of files, as MongoDB's; `work` nanoseconds for an operation.
    pub fn of_files(mib: u64, work: u64, seed: u64) -> Self {
        Self {
            zipf: Zipf::new((mib * UNITS_PER_MIB) as u32, 0.99, seed),
            work,
            anonymous: false,
            writes: 0.05,
            think: 0,
        }
    }

    /// A store of `mib` MiB in anonymous memory, as Redis'. It is swapped if it does not fit.
    pub fn in_memory(mib: u64, work: u64, seed: u64) -> Self {
        Self {
            anonymous: true,
            writes: 0.0,
            ..Self::of_files(mib, work, seed)
        }
    }

    /// A store that is only read, by clients that wait `think` nanoseconds between requests.
    #[must_use]
    pub const fn read_slowly(mut self, think: u64) -> Self {
        self.writes = 0.0;
        self.think = think;
        self
    }
}

impl Workload for KeyValue {
    fn next(&mut self, _thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        let unit = self.zipf.next(random);
        let kind = if self.anonymous { ANONYMOUS } else { 0 };
        let file = (unit / FILE) | kind;
        if self.think > 0 {
            steps.push(Step::Wait(self.think));
        }
        steps.push(Step::Work(self.work));
        if random.unit() < self.writes {
            steps.push(Step::write(file, unit % FILE, 1));
        } else {
            steps.push(Step::read(file, unit % FILE, 1));
        }
    }
}
