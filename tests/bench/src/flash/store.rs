// SPDX-License-Identifier: GPL-2.0-only

//! The interface of a cache that keeps pages in a file.

use anyhow::Result;
use ddabi::PAGE_SIZE;

/// The data of a page.
pub(super) type Page = [u8; PAGE_SIZE];

/// Maximum number of pages of a call.
pub(super) const RUN: usize = 32;

/// Bytes that were transferred to and from the file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bytes {
    pub(super) written: u64,
    pub(super) read: u64,
}

/// A cache under test. Its keys are the numbers of pages.
pub(super) trait Store {
    /// Stores pages with consecutive numbers.
    fn put(&mut self, first: u64, pages: &[Page]) -> Result<()>;

    /// Waits until the pages that were put are in the file.
    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Reads pages with consecutive numbers, all of which the cache must have.
    fn get(&mut self, first: u64, pages: &mut [Page]) -> Result<()>;

    /// Returns the bytes that were transferred so far.
    fn bytes(&self) -> Bytes;
}
