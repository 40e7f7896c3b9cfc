// SPDX-License-Identifier: GPL-2.0-only

//! The interface of a cache under comparison.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ddabi::key::mix;

use crate::mix::Run;

/// A cache under test: keys of pages with the number of the frame that holds the page.
pub(crate) trait Cache: Sync {
    /// Stores the pages of some runs in consecutive frames from `frame` on.
    fn put(&self, runs: &[Run], frame: u64);

    /// Takes the pages of some runs out, and appends the frames of those that it had.
    fn get(&self, runs: &[Run], frames: &mut Vec<u64>);

    /// Drops the pages of some runs. Returns the number of those that it had.
    fn flush(&self, runs: &[Run]) -> usize;
}

/// No cache: every page is a hit in a random frame, so that only copying is measured.
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
