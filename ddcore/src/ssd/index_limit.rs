// SPDX-License-Identifier: GPL-2.0-only

//! A limit of the memory that the index takes.
//!
//! The index of both tiers is in memory, and the pages of a large SSD need much of it. When the
//! index reaches its limit, the SSD tier takes no more pages. A little before that, segments are
//! evicted in the background, so that the memory of their entries serves newer pages.

use crate::number::Number;

/// Segments are evicted while less than one part in this many of the limit is left.
const MARGIN: u64 = 32;

/// The limit. Processors share it without a lock. They may note sizes in another order than that in
/// which they read them; the task that evicts for the limit notes the current one first.
#[derive(Debug)]
pub struct IndexLimit<N> {
    /// The limit in pages, or 0 if there is none.
    pages: N,
    /// The size in pages that was noted last.
    used: N,
}

impl<N: Number> IndexLimit<N> {
    /// Creates a state without a limit.
    pub fn new() -> Self {
        Self {
            pages: N::new(0),
            used: N::new(0),
        }
    }

    /// Returns the limit in pages, or 0 if there is none.
    pub fn pages(&self) -> u64 {
        self.pages.load()
    }

    /// Sets the limit in pages, where 0 means that there is none. The caller then notes the size
    /// of the index.
    pub fn set(&self, pages: u64) {
        self.pages.swap(pages);
    }

    /// Notes the size of the index in pages.
    pub fn note(&self, used: u64) {
        self.used.swap(used);
    }

    /// Returns whether the index may take no more memory for pages of the SSD tier.
    pub fn is_reached(&self) -> bool {
        let pages = self.pages.load();
        pages > 0 && self.used.load() >= pages
    }

    /// Returns whether pages should leave the SSD tier, because the limit is near or reached.
    pub fn is_near(&self) -> bool {
        let pages = self.pages.load();
        pages > 0 && self.used.load() >= pages - pages / MARGIN
    }
}

impl<N: Number> Default for IndexLimit<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::tests::Plain;

    #[test]
    fn pages_leave_before_the_limit_is_reached() {
        let limit = IndexLimit::<Plain>::new();
        limit.set(3200);
        for (used, is_near, is_reached) in [
            (0, false, false),
            (3099, false, false),
            (3100, true, false),
            (3199, true, false),
            (3200, true, true),
            (9999, true, true),
            (3099, false, false),
        ] {
            limit.note(used);
            assert_eq!(limit.is_near(), is_near, "{used}");
            assert_eq!(limit.is_reached(), is_reached, "{used}");
        }
    }

    #[test]
    fn without_a_limit_it_is_never_reached() {
        let limit = IndexLimit::<Plain>::new();
        limit.note(u64::MAX);
        assert!(!limit.is_near() && !limit.is_reached());
        limit.set(1);
        assert!(limit.is_near() && limit.is_reached());
        limit.set(0);
        assert!(!limit.is_near() && !limit.is_reached());
    }
}
