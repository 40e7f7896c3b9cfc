// SPDX-License-Identifier: GPL-2.0-only

//! The profile `webserver`.

use super::files::Files;
use crate::parameters::SERVE;
use crate::random::Random;
use crate::workload::{Step, Workload};

/// `webserver`: reads ten whole files, then writes a log entry.
#[derive(Debug)]
pub struct Webserver {
    files: Files,
    served: u32,
    log: u32,
}

impl Webserver {
    /// Creates a server of `mib` MiB of files.
    pub fn new(mib: u64, seed: u64) -> Self {
        Self {
            files: Files::new(1, mib, &mut Random::new(seed)),
            served: 0,
            log: 0,
        }
    }

    /// Creates all files before the first operation.
    #[must_use]
    pub fn made_first(mut self) -> Self {
        self.files.make_first();
        self
    }
}

impl Workload for Webserver {
    fn next(&mut self, thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        if self.files.make(thread, steps) {
            return;
        }
        let (file, units) = self.files.pick(random);
        steps.push(Step::Work(SERVE));
        steps.push(Step::read(file, 0, units));
        self.served += 1;
        if self.served % 10 == 0 {
            self.log = (self.log + 1) % 4096;
            steps.push(Step::write(0, self.log, 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{SECOND, UNITS_PER_MIB};

    #[test]
    fn all_files_are_made_once_before_any_is_served() {
        let mut server = Webserver::new(4, 1).made_first();
        let (mut random, mut steps) = (Random::new(1), Vec::new());
        server.next(1, &mut random, &mut steps);
        assert_eq!(steps, [Step::Wait(SECOND)]);
        let mut made = Vec::new();
        loop {
            steps.clear();
            server.next(0, &mut random, &mut steps);
            if steps.contains(&Step::Work(SERVE)) {
                break;
            }
            made.append(&mut steps);
        }
        let units = |step: &Step| match step {
            Step::Write { units, .. } => *units,
            other => panic!("{other:?}"),
        };
        assert!(made.iter().map(units).sum::<u32>() >= 4 * UNITS_PER_MIB as u32);
        let files = made.len();
        made.sort_by_key(|step| format!("{step:?}"));
        made.dedup();
        assert_eq!((made.len(), server.files.units.len()), (files, files));
    }
}
