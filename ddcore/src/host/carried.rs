// SPDX-License-Identifier: GPL-2.0-only

//! The pages that a call copies to or from the guest.

use crate::index::Batch;
use ddabi::request::{MAX_PAGES, MAX_RUNS};

/// Maximum number of pages of a call.
pub(super) const MAX_PAGES_OF_CALL: usize = MAX_PAGES as usize;

/// A page of a tier. It has one owner, and is freed when it is dropped.
pub trait Page: Sized {
    /// Returns the handle by which the index refers to the page.
    fn handle(&self) -> u64;

    /// Passes the page to the index, which keeps only its handle.
    fn keep(self);
}

/// The pages of a call, by their position in it. The value is too large for a kernel stack.
pub struct Carried<P> {
    /// The pages. There are none between two calls.
    pub pages: [Option<P>; MAX_PAGES_OF_CALL],
    /// The handles by which the index is to refer to the pages of a put.
    pub handles: [u64; MAX_PAGES_OF_CALL],
    /// The parts of the pages, for the index. It is empty between two calls.
    pub batch: Batch,
    /// The lists that the pages of a get were on.
    pub owners: [u16; MAX_PAGES_OF_CALL],
    /// The positions of the first pages of the runs of a put.
    pub(super) starts: [u16; MAX_RUNS],
}

impl<P> Carried<P> {
    /// Creates a value without pages.
    pub const fn new() -> Self {
        Self {
            pages: [const { None }; MAX_PAGES_OF_CALL],
            handles: [0; MAX_PAGES_OF_CALL],
            batch: Batch::new(),
            owners: [0; MAX_PAGES_OF_CALL],
            starts: [0; MAX_RUNS],
        }
    }
}

impl<P> Default for Carried<P> {
    fn default() -> Self {
        Self::new()
    }
}
