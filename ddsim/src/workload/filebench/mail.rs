// SPDX-License-Identifier: GPL-2.0-only

//! The profile `varmail`.

use super::files::Files;
use crate::parameters::US;
use crate::random::Random;
use crate::workload::{Step, Workload};

/// `varmail`: delivers a mail, reads a mail and marks it, and reads another mail. Deliveries and
/// marks are synced.
#[derive(Debug)]
pub struct Mail {
    files: Files,
    /// The next operation of each thread, and the mail that the thread used last.
    threads: Vec<(u32, (u32, u32))>,
}

impl Mail {
    /// Creates a server of `mib` MiB of mail.
    pub fn new(mib: u64, seed: u64) -> Self {
        Self {
            files: Files::new(1, mib, &mut Random::new(seed)),
            threads: Vec::new(),
        }
    }

    /// Creates all files before the first operation.
    #[must_use]
    pub fn made_first(mut self) -> Self {
        self.files.make_first();
        self
    }
}

impl Workload for Mail {
    fn next(&mut self, thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        if self.files.make(thread, steps) {
            return;
        }
        let threads = self.threads.len().max(thread + 1);
        self.threads.resize(threads, (0, (0, 0)));
        let (turn, last) = &mut self.threads[thread];
        if *turn % 4 != 2 {
            *last = self.files.pick(random);
        }
        let (file, units) = *last;
        steps.push(Step::Work(150 * US));
        match *turn % 4 {
            0 => {
                steps.push(Step::Delete { file, units });
                steps.push(Step::write(file, 0, units));
                steps.push(Step::Sync);
            }
            2 => {
                steps.push(Step::write(file, units - 1, 1));
                steps.push(Step::Sync);
            }
            _ => steps.push(Step::read(file, 0, units)),
        }
        *turn += 1;
    }
}
