// SPDX-License-Identifier: GPL-2.0-only

//! A stream of accesses to pages, as replays take it.

use crate::page::Page;

/// What is done to a page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// It is read.
    Read,
    /// All of it is written: no older content is of use.
    Write,
    /// It is deleted with its file, which is no access.
    Gone,
}

/// One access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Access {
    /// Which page.
    pub page: Page,
    /// What is done.
    pub kind: Kind,
}

impl Access {
    /// A read.
    pub const fn read(page: Page) -> Self {
        Self {
            page,
            kind: Kind::Read,
        }
    }

    /// Its accesses of this kind: one, or none if it only ends a page.
    pub const fn count(&self) -> u64 {
        !matches!(self.kind, Kind::Gone) as u64
    }
}

/// Different pages of a stream.
pub fn distinct(stream: &[Access]) -> usize {
    let mut pages: Vec<Page> = stream.iter().map(|access| access.page).collect();
    pages.sort_unstable();
    pages.dedup();
    pages.len()
}
