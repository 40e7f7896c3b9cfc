// SPDX-License-Identifier: GPL-2.0-only

//! The pages that a call copies to or from the guest.

use crate::index::Batch;
use ddabi::request::MAX_PAGES;

/// Most pages of a call.
const MOST: usize = MAX_PAGES as usize;

/// A page of a tier. It has one owner, and is freed when it is dropped.
pub trait Page: Sized {
    /// Returns the handle by which the index knows the page.
    fn handle(&self) -> u64;

    /// Passes the page to the index, which keeps only its handle.
    fn keep(self);
}

/// The pages of a call, by their place in it. Too large for the stack of a kernel.
pub struct Carried<P> {
    /// The pages. Between two calls there are none.
    pub pages: [Option<P>; MOST],
    /// The handles by which the index is to know the pages of a put.
    pub handles: [u64; MOST],
    /// Where the pages belong in the index. Between two calls it is empty.
    pub batch: Batch,
    /// The lists that the pages of a get were on.
    pub owners: [u16; MOST],
}

impl<P> Carried<P> {
    /// Creates places for the pages of a call, without pages.
    pub const fn new() -> Self {
        Self {
            pages: [const { None }; MOST],
            handles: [0; MOST],
            batch: Batch::new(),
            owners: [0; MOST],
        }
    }
}

impl<P> Default for Carried<P> {
    fn default() -> Self {
        Self::new()
    }
}
