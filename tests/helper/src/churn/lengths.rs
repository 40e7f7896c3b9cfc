// SPDX-License-Identifier: GPL-2.0-only

//! The lengths of the files.

use super::step::{Shift, Step};

/// The length of each file, or `None` for files that do not exist.
#[derive(Clone, Debug)]
pub(super) struct Lengths(Vec<Option<u64>>);

impl Lengths {
    /// Returns the state without files.
    pub(super) fn new(files: u32) -> Self {
        Self(vec![None; files as usize])
    }

    /// Returns the length of a file.
    pub(super) fn of(&self, file: u32) -> Option<u64> {
        self.0.get(file as usize).copied().flatten()
    }

    /// Applies a step to the lengths.
    pub(super) fn apply(&mut self, step: &Step) {
        let lens = &mut self.0;
        match *step {
            Step::Create { file, len, .. } | Step::Truncate { file, len } => {
                lens[file as usize] = Some(len);
            }
            Step::Write {
                file, offset, len, ..
            }
            | Step::Copy {
                to: file,
                offset,
                len,
                ..
            } => {
                let old = lens[file as usize].unwrap_or(0);
                lens[file as usize] = Some(old.max(offset + len));
            }
            Step::Alter {
                file, len, shift, ..
            } => {
                let old = lens[file as usize].unwrap_or(0);
                lens[file as usize] = Some(match shift {
                    Shift::Punch | Shift::Zero => old,
                    Shift::Collapse => old - len,
                    Shift::Insert => old + len,
                });
            }
            Step::Rename { from, to } => lens[to as usize] = lens[from as usize].take(),
            Step::Exchange { one, other } => lens.swap(one as usize, other as usize),
            Step::Unlink { file } => lens[file as usize] = None,
            Step::Orphan { .. }
            | Step::Read { .. }
            | Step::Forget { .. }
            | Step::DropCaches { .. }
            | Step::Sync
            | Step::Remount { .. } => {}
        }
    }
}
