// SPDX-License-Identifier: GPL-2.0

//! How many pages there are, in the tier and in each session, however many processors put and take
//! at a time.
//!
//! Pages are reserved before they exist, and booked under the lock under which they become
//! visible: no task can take a page out, and book that, before it was booked. So no account is ever
//! below zero or above its capacity, as long as that does not shrink.

use crate::number::Number;
use crate::store::Store;

/// A number of pages.
#[derive(Debug)]
pub struct Account<N> {
    pages: N,
}

impl<N: Number> Account<N> {
    /// No pages.
    pub fn new() -> Self {
        Self { pages: N::new(0) }
    }

    /// How many there are now.
    pub fn pages(&self) -> u64 {
        self.pages.load()
    }

    /// Adds pages if there are no more than `capacity` then, and returns whether it did. The
    /// capacity may change at any time.
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

    /// Books pages that came into a store, whose lock the caller holds as long as it borrows it.
    pub fn came<S>(&self, pages: u64, _locked: &mut Store<S>) {
        self.pages.add(pages);
    }

    /// Books pages that are gone, or were reserved in vain.
    pub fn went(&self, pages: u64) {
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
