// SPDX-License-Identifier: GPL-2.0-only

//! The steps of a plan.

use super::{
    Plan,
    bytes::Random,
    lengths::Lengths,
    step::{By, Seek, Shift, Step},
};

/// The steps of a plan, one after the other.
///
/// The script tracks the lengths of all files, so that every step is valid. The last steps read all
/// files from an empty cache, past the cache, and after a mount.
#[derive(Clone, Debug)]
pub struct Script {
    plan: Plan,
    rng: Random,
    lengths: Lengths,
    made: u32,
    /// Steps that are already chosen, the next one last.
    queue: Vec<Step>,
}

impl Script {
    /// Returns the script of a plan.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            rng: Random::new(plan.seed),
            lengths: Lengths::new(plan.files),
            made: 0,
            queue: Vec::new(),
        }
    }

    fn decide(&mut self) {
        // The number of files has 32 bits.
        let file = self.rng.below(self.plan.files.into()) as u32;
        let Some(len) = self.lengths.of(file) else {
            let step = self.create(file);
            return self.queue.push(step);
        };
        let step = match self.rng.below(1000) {
            0..230 => self.write(file, len),
            230..300 => Step::Truncate {
                file,
                len: self.new_len(len),
            },
            300..370 => self.alter(file, len, Shift::Punch),
            370..400 => self.alter(file, len, Shift::Zero),
            400..430 => self.alter(file, len, Shift::Collapse),
            430..460 => self.alter(file, len, Shift::Insert),
            460..500 => self.copy(file, len),
            500..530 => self.rename(file),
            530..580 => self.replace(file),
            580..600 => Step::Orphan {
                len: self.rng.within(1, 64 << 10),
                seed: self.rng.any(),
            },
            600..640 => Step::Forget { file },
            640..650 => Step::DropCaches {
                what: self.rng.within(1, 3) as u8,
            },
            650..658 => Step::Sync,
            658..666 => self.remount(file, len),
            _ => self.read(file),
        };
        self.queue.push(step);
    }

    fn create(&mut self, file: u32) -> Step {
        let longest = match self.rng.below(3) {
            0 => 20 << 10,
            1 => 200 << 10,
            _ => self.plan.longest,
        };
        Step::Create {
            file,
            len: self.rng.below(longest.min(self.plan.longest) + 1),
            seed: self.rng.any(),
        }
    }

    fn write(&mut self, file: u32, len: u64) -> Step {
        let by = match self.rng.below(10) {
            0..4 => By::Calls,
            4..7 if len > 0 => By::Mapping,
            _ => By::Direct,
        };
        let (mut offset, mut count) = self.range(len.max(1));
        match by {
            // Half of them may end beyond the end of the file.
            By::Calls if self.rng.chance(50) => {
                count = self.rng.within(1, 64 << 10);
            }
            By::Direct => {
                let unit = if self.rng.chance(70) { 4096 } else { 512 };
                offset -= offset % unit;
                count = unit * self.rng.within(1, (64 << 10) / unit);
            }
            _ => {}
        }
        count = count.min(self.plan.longest - offset);
        if by == By::Direct {
            count -= count % 512;
        }
        if count == 0 {
            return self.read(file);
        }
        Step::Write {
            file,
            offset,
            len: count,
            seed: self.rng.any(),
            by,
            sync: self.rng.chance(25),
        }
    }

    /// Returns a range inside the first `len` bytes. Most ranges are short.
    fn range(&mut self, len: u64) -> (u64, u64) {
        let offset = self.rng.below(len);
        let limit = (len - offset).min(match self.rng.below(3) {
            0 => 1000,
            1 => 16 << 10,
            _ => u64::MAX,
        });
        (offset, self.rng.within(1, limit))
    }

    fn new_len(&mut self, len: u64) -> u64 {
        match self.rng.below(4) {
            // The new end is in the last page.
            0 => len.saturating_sub(self.rng.below(4096)),
            1 => (len + self.rng.below(8192)).min(self.plan.longest),
            2 => self.rng.below(len + 1),
            _ => self.rng.below(self.plan.longest + 1),
        }
    }

    fn alter(&mut self, file: u32, len: u64, shift: Shift) -> Step {
        if len == 0 {
            return self.read(file);
        }
        let (mut offset, mut count) = self.range(len);
        if matches!(shift, Shift::Collapse | Shift::Insert) {
            // Whole blocks that end before the file does.
            let block = self.plan.block;
            offset -= offset % block;
            count = count.next_multiple_of(block).min(32 << 10);
            let fits = match shift {
                Shift::Collapse => offset + count < len,
                _ => offset < len && len + count <= self.plan.longest,
            };
            if !fits {
                return self.read(file);
            }
        }
        Step::Alter {
            file,
            offset,
            len: count,
            shift,
        }
    }

    fn copy(&mut self, from: u32, len: u64) -> Step {
        let to = self.other(from);
        if len == 0 || self.lengths.of(to).is_none() {
            return self.read(from);
        }
        let (mut offset, mut count) = self.range(len);
        if self.rng.chance(60) {
            // Only whole blocks can be shared.
            offset -= offset % self.plan.block;
            count = count.next_multiple_of(self.plan.block);
        }
        Step::Copy {
            from,
            to,
            offset,
            len: count.min(len - offset),
        }
    }

    fn rename(&mut self, from: u32) -> Step {
        let to = self.other(from);
        if self.lengths.of(to).is_some() && self.rng.chance(50) {
            return Step::Exchange {
                one: from,
                other: to,
            };
        }
        Step::Rename { from, to }
    }

    /// Deletes a file and makes a new one, which probably gets its inode.
    fn replace(&mut self, file: u32) -> Step {
        if self.rng.chance(70) {
            let create = self.create(file);
            self.queue.push(create);
        }
        Step::Unlink { file }
    }

    fn remount(&mut self, file: u32, len: u64) -> Step {
        let block = self.plan.block;
        if !self.plan.offline || len < block {
            return Step::Remount { touched: None };
        }
        let number = self.rng.below(len / block);
        let touched = (file, number, self.rng.any() as u8);
        let read = self.read(file);
        self.queue.extend([
            read,
            Step::Remount {
                touched: Some(touched),
            },
            Step::Forget { file },
        ]);
        Step::Write {
            file,
            offset: number * block,
            len: block,
            seed: self.rng.any(),
            by: By::Calls,
            sync: true,
        }
    }

    fn read(&mut self, file: u32) -> Step {
        let (by, seek) = match self.rng.below(10) {
            0..6 => (By::Calls, Seek::Forward),
            6..7 => (By::Calls, Seek::Backward),
            7..9 => (By::Mapping, Seek::Forward),
            _ => (By::Direct, Seek::Forward),
        };
        Step::Read { file, by, seek }
    }

    fn other(&mut self, file: u32) -> u32 {
        let files = self.plan.files;
        // The number of files has 32 bits.
        (file + 1 + self.rng.below(u64::from(files) - 1) as u32) % files
    }

    /// Reads all files from an empty cache, past the cache, and after a mount.
    fn finale(&mut self) {
        let ends = [
            (Step::DropCaches { what: 3 }, By::Calls),
            (Step::Sync, By::Direct),
            (Step::Remount { touched: None }, By::Mapping),
        ];
        for (first, by) in ends.into_iter().rev() {
            for file in (0..self.plan.files).rev() {
                let seek = Seek::Forward;
                self.queue.push(Step::Read { file, by, seek });
            }
            self.queue.push(first);
        }
    }
}

impl Iterator for Script {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.queue.is_empty() {
            match self.made {
                made if made < self.plan.steps => self.decide(),
                made if made < u32::MAX => {
                    self.made = u32::MAX - 1;
                    self.finale();
                }
                _ => return None,
            }
            self.made += 1;
        }
        let step = self.queue.pop()?;
        self.lengths.apply(&step);
        Some(step)
    }
}
