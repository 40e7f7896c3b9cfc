// SPDX-License-Identifier: GPL-2.0-only

//! The files of a churn as bytes.

use std::ops::Range;

use super::{
    Plan,
    bytes::fill,
    step::{Shift, Step},
};

/// The expected content of the filesystem.
#[derive(Clone, Debug)]
pub struct Model {
    files: Vec<Option<Vec<u8>>>,
    block: u64,
}

impl Model {
    /// Returns the state without files.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self {
            files: vec![None; plan.files as usize],
            block: plan.block,
        }
    }

    /// Returns the content of a file, or `None` if it does not exist.
    #[must_use]
    pub fn file(&self, file: u32) -> Option<&[u8]> {
        self.files.get(file as usize)?.as_deref()
    }

    /// Returns the content of a file that exists according to the script.
    fn there(&mut self, file: u32) -> &mut Vec<u8> {
        self.files[file as usize].get_or_insert_default()
    }

    /// Applies a step.
    ///
    /// # Panics
    ///
    /// Panics if the step is not of the model's script.
    pub fn apply(&mut self, step: &Step) {
        match *step {
            Step::Create { file, len, seed } => {
                let mut content = vec![0; size(len)];
                fill(seed, 0, &mut content);
                self.files[file as usize] = Some(content);
            }
            Step::Write {
                file,
                offset,
                len,
                seed,
                ..
            } => fill(seed, offset, self.room(file, offset, len)),
            Step::Truncate { file, len } => self.there(file).resize(size(len), 0),
            Step::Alter {
                file,
                offset,
                len,
                shift,
            } => self.alter(file, range(offset, len), shift),
            Step::Copy {
                from,
                to,
                offset,
                len,
            } => {
                let source = self.there(from)[range(offset, len)].to_vec();
                self.room(to, offset, len).copy_from_slice(&source);
            }
            Step::Rename { from, to } => {
                self.files[to as usize] = self.files[from as usize].take();
            }
            Step::Exchange { one, other } => self.files.swap(one as usize, other as usize),
            Step::Unlink { file } => self.files[file as usize] = None,
            Step::Remount {
                touched: Some((file, block, byte)),
            } => {
                let first = block * self.block;
                let touched = range(first, self.block);
                self.there(file)[touched].fill(byte);
            }
            Step::Orphan { .. }
            | Step::Read { .. }
            | Step::Forget { .. }
            | Step::DropCaches { .. }
            | Step::Sync
            | Step::Remount { touched: None } => {}
        }
    }

    /// Returns a range of a file, which is extended if necessary.
    fn room(&mut self, file: u32, offset: u64, len: u64) -> &mut [u8] {
        let range = range(offset, len);
        let content = self.there(file);
        if content.len() < range.end {
            content.resize(range.end, 0);
        }
        &mut content[range]
    }

    fn alter(&mut self, file: u32, range: Range<usize>, shift: Shift) {
        let content = self.there(file);
        match shift {
            Shift::Punch | Shift::Zero => content[range].fill(0),
            Shift::Collapse => drop(content.drain(range)),
            Shift::Insert => {
                let zeros = std::iter::repeat_n(0, range.len());
                content.splice(range.start..range.start, zeros);
            }
        }
    }
}

fn range(offset: u64, len: u64) -> Range<usize> {
    size(offset)..size(offset + len)
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("test files fit into memory")
}
