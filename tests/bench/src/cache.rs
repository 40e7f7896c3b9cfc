// SPDX-License-Identifier: GPL-2.0-only

//! What a cache must do to be compared.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ddabi::key::mix;

use crate::mix::Run;

/// A cache under test: keys of pages with the number of the frame that holds the page.
pub(crate) trait Cache: Sync {
    /// Keeps the pages of some runs in consecutive frames from `frame` on.
    fn put(&self, runs: &[Run], frame: u64);

    /// Takes out the pages of some runs; the frames of those it had are appended.
    fn get(&self, runs: &[Run], frames: &mut Vec<u64>);

    /// Drops the pages of some runs. Returns the number of those it had.
    fn flush(&self, runs: &[Run]) -> usize;
}

/// No cache at all: every page is a hit, in a frame chosen at random. What is left is copying.
#[derive(Debug, Default)]
pub(crate) struct Nothing {
    asked: AtomicU64,
}

impl Cache for Nothing {
    fn put(&self, _runs: &[Run], _frame: u64) {}

    fn get(&self, runs: &[Run], frames: &mut Vec<u64>) {
        for run in runs {
            let first = mix(self.asked.fetch_add(1, Relaxed)) >> 32;
            frames.extend((first..).take(run.pages as usize));
        }
    }

    fn flush(&self, _runs: &[Run]) -> usize {
        0
    }
}
