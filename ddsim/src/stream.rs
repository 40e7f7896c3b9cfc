// SPDX-License-Identifier: GPL-2.0-only

//! Streams of page accesses, the input of replays.

use crate::page::Page;

/// Kind of an access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The page is read.
    Read,
    /// The whole page is written, so that its older content is not needed.
    Write,
    /// The page is deleted with its file, which does not count as an access.
    Gone,
}

/// One access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Access {
    /// The page.
    pub page: Page,
    /// The kind.
    pub kind: Kind,
}

impl Access {
    /// Returns a read of a page.
    pub const fn read(page: Page) -> Self {
        Self {
            page,
            kind: Kind::Read,
        }
    }

    /// Returns 1, or 0 for a deletion, which does not count as an access.
    pub const fn count(&self) -> u64 {
        !matches!(self.kind, Kind::Gone) as u64
    }
}

/// Returns the number of distinct pages of a stream.
pub fn distinct(stream: &[Access]) -> usize {
    let mut pages: Vec<Page> = stream.iter().map(|access| access.page).collect();
    pages.sort_unstable();
    pages.dedup();
    pages.len()
}
