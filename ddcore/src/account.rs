// SPDX-License-Identifier: GPL-2.0-only

//! Numbers of pages in the tier and in each session, which all processors change without a lock.
//!
//! Pages are reserved before they exist, and are added to an account under the lock under which
//! they become visible. A task can therefore not take a page out, and subtract it, before it was
//! added, and no account is ever below zero, or above a capacity that does not shrink.

use crate::index::Index;
use crate::number::Number;

/// A number of pages.
#[derive(Debug)]
pub struct Account<N> {
    pages: N,
}

impl<N: Number> Account<N> {
    /// Creates an account of no pages.
    pub fn new() -> Self {
        Self { pages: N::new(0) }
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> u64 {
        self.pages.load()
    }

    /// Adds pages unless there would be more than `capacity`, and returns whether it did. The
    /// capacity may change at any time, so that it is read again after a concurrent change.
    pub fn reserve(&self, pages: u64, capacity: impl Fn() -> u64) -> bool {
        let mut now = self.pages();
        while now.saturating_add(pages) <= capacity() {
            match self.pages.replace(now, now + pages) {
                Ok(()) => return true,
                Err(changed) => now = changed,
            }
        }
        false
    }

    /// Adds pages that were inserted into an index. The borrow proves that the caller holds the
    /// index's lock.
    pub fn add<S>(&self, pages: u64, _locked: &mut Index<S>) {
        self.pages.add(pages);
    }

    /// Subtracts pages that were removed, or that were reserved and are not needed.
    pub fn subtract(&self, pages: u64) {
        if pages > 0 {
            self.pages.subtract(pages);
        }
    }
}

impl<N: Number> Default for Account<N> {
    fn default() -> Self {
        Self::new()
    }
}
