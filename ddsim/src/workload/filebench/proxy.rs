// SPDX-License-Identifier: GPL-2.0-only

//! The profile `webproxy`.

use super::files::Files;
use crate::parameters::SERVE;
use crate::random::Random;
use crate::workload::{Step, Workload};

/// `webproxy`: replaces a file and reads five.
#[derive(Debug)]
pub struct Proxy {
    files: Files,
    turn: Vec<u32>,
}

impl Proxy {
    /// Creates a proxy of `mib` MiB of files.
    pub fn new(mib: u64, seed: u64) -> Self {
        Self {
            files: Files::new(1, mib, &mut Random::new(seed)),
            turn: Vec::new(),
        }
    }

    /// Creates all files before the first operation.
    #[must_use]
    pub fn made_first(mut self) -> Self {
        self.files.make_first();
        self
    }
}

impl Workload for Proxy {
    fn next(&mut self, thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        if self.files.make(thread, steps) {
            return;
        }
        self.turn.resize(self.turn.len().max(thread + 1), 0);
        let (file, units) = self.files.pick(random);
        steps.push(Step::Work(SERVE));
        if self.turn[thread] % 6 == 0 {
            steps.push(Step::Delete { file, units });
            steps.push(Step::write(file, 0, units));
        } else {
            steps.push(Step::read(file, 0, units));
        }
        self.turn[thread] += 1;
    }
}
