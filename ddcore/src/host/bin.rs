// SPDX-License-Identifier: GPL-2.0

//! Pages on their way out of the index.

use super::session::Session;
use crate::store::Removed;

/// Most pages that a step under a lock removes.
pub const SIZE: usize = 64;

/// Pages that left the index in one step under a lock. They are freed when this is dropped, after
/// the lock is gone.
///
/// They are of one tier. With two tiers a bin has to count the pages of each, by their lists.
pub struct Bin<P> {
    pages: [Option<P>; SIZE],
    count: usize,
}

impl<P> Bin<P> {
    /// An empty bin.
    #[inline]
    pub fn new() -> Self {
        Self {
            pages: [const { None }; SIZE],
            count: 0,
        }
    }

    /// Adds the page of an entry that left the index of a session.
    #[inline]
    pub fn add(&mut self, session: &impl Session<Page = P>, removed: Removed) {
        let page = session.page(removed);
        // A full bin frees the page at once, which is correct but slow under a lock.
        if let Some(place) = self.pages.get_mut(self.count) {
            *place = page;
        }
        self.count += 1;
    }

    /// Returns the places of the pages it has.
    pub fn pages(&mut self) -> &mut [Option<P>] {
        &mut self.pages
    }

    /// Returns the number of pages added.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl<P> Default for Bin<P> {
    fn default() -> Self {
        Self::new()
    }
}
