// SPDX-License-Identifier: GPL-2.0-only

//! The files of a profile.

use crate::parameters::{SECOND, UNITS_PER_MIB};
use crate::random::Random;
use crate::workload::Step;

/// Number of files that are created at a time.
const MADE: usize = 16;

/// A set of files, with the size of each in units.
#[derive(Clone, Debug)]
pub(super) struct Files {
    first: u32,
    pub(super) units: Vec<u8>,
    /// Number of files that are still to be created.
    unmade: usize,
}

impl Files {
    pub(super) fn new(first: u32, mib: u64, random: &mut Random) -> Self {
        let mut units = Vec::new();
        let mut total = 0;
        while total < mib * UNITS_PER_MIB {
            // Sizes are rounded up to whole units; most files have one.
            let size = random.gamma(0.6).ceil().clamp(1.0, 8.0) as u8;
            total += u64::from(size);
            units.push(size);
        }
        Self {
            first,
            units,
            unmade: 0,
        }
    }

    pub(super) fn pick(&self, random: &mut Random) -> (u32, u32) {
        let at = random.below(self.units.len() as u64) as usize;
        (self.first + at as u32, u32::from(self.units[at]))
    }

    /// Creates all files before any of them is used (Filebench's `prealloc`).
    pub(super) fn make_first(&mut self) {
        self.unmade = self.units.len();
    }

    /// Creates some of the missing files. Returns whether any were missing. Only the first thread
    /// creates files; the others wait.
    pub(super) fn make(&mut self, thread: usize, steps: &mut Vec<Step>) -> bool {
        if self.unmade == 0 {
            return false;
        }
        if thread > 0 {
            steps.push(Step::Wait(SECOND));
            return true;
        }
        let next = self.units.len() - self.unmade;
        let files = (self.first..).zip(&self.units).skip(next).take(MADE);
        steps.extend(files.map(|(file, units)| Step::write(file, 0, u32::from(*units))));
        self.unmade = self.unmade.saturating_sub(MADE);
        true
    }
}
