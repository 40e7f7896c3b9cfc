// SPDX-License-Identifier: GPL-2.0-only

//! Pages that left the index and are freed after the lock is released.

use super::session::Session;
use super::tally::Tally;
use crate::index::Removed;

/// Maximum number of pages that a step under a lock removes.
pub const SIZE: usize = 64;

/// Pages that left the index in one step under a lock. They are freed when the bin is dropped,
/// which must be after the lock is released.
pub struct Bin<P> {
    pages: [Option<P>; SIZE],
    count: usize,
    tally: Tally,
}

impl<P> Bin<P> {
    /// Creates an empty bin.
    #[inline]
    pub fn new() -> Self {
        Self {
            pages: [const { None }; SIZE],
            count: 0,
            tally: Tally::new(),
        }
    }

    /// Adds the page of an entry that left the index of a session.
    #[inline]
    pub fn add(&mut self, session: &impl Session<Page = P>, removed: Removed) {
        let at = self.count;
        self.tally.removed(session, removed.list(), 1);
        self.count += 1;
        let page = session.page(removed);
        // A full bin frees the page at once, which is correct but slow under a lock.
        if let Some(place) = self.pages.get_mut(at) {
            *place = page;
        }
    }

    /// Subtracts the added pages from the numbers of pages of the session and of its pools, and
    /// releases their room in the tier. Must be called once, when all pages have been added.
    #[inline]
    pub fn settle(&mut self, session: &impl Session<Page = P>) {
        session.sub_used(&self.tally.subtract(session));
    }

    /// Returns the slots of the pages.
    pub fn pages(&mut self) -> &mut [Option<P>] {
        &mut self.pages
    }

    /// Returns the number of pages that were added.
    pub const fn count(&self) -> usize {
        self.count
    }
}

impl<P> Default for Bin<P> {
    fn default() -> Self {
        Self::new()
    }
}
