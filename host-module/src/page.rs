// SPDX-License-Identifier: GPL-2.0

//! Pages that hold what guests put. A page has one owner; dropping it frees it.

use crate::ffi::{self, Fault, Guest};
use core::num::NonZeroU64;
use ddabi::PAGE_SIZE;
use ddcore::store::{Removed, MAX_HANDLE};
use kernel::prelude::*;

/// A page of host memory.
///
/// # Invariants
///
/// The frame came from [`ffi::allocate_frames`] and is owned by this value alone.
#[repr(transparent)]
pub(crate) struct Page(NonZeroU64);

impl Page {
    /// Fills `pages` with new pages, as far as memory allows; whether it did for all.
    pub(crate) fn allocate(pages: &mut [Option<Self>]) -> bool {
        const CHUNK: usize = 64;
        for chunk in pages.chunks_mut(CHUNK) {
            let mut frames = [0; CHUNK];
            let wanted = chunk.len();
            let got = ffi::allocate_frames(&mut frames[..wanted]);
            for (page, frame) in chunk.iter_mut().zip(&frames[..got]) {
                // INVARIANT: It was just allocated, and nobody else knows it.
                *page = NonZeroU64::new(*frame).map(Self);
            }
            if got < wanted {
                return false;
            }
        }
        true
    }

    /// Gives the page to the index, which keeps nothing but the number.
    pub(crate) fn into_handle(self) -> u64 {
        core::mem::ManuallyDrop::new(self).0.get()
    }

    /// Takes a page back from the index that has let it go.
    pub(crate) fn from_removed(removed: Removed) -> Option<Self> {
        // INVARIANT: All handles in our stores came from `into_handle`, and a store returns each
        // of them once, in a value that cannot be copied.
        NonZeroU64::new(removed.into_handle()).map(Self)
    }

    /// Fills the page from a guest's frame.
    pub(crate) fn read_from(&mut self, guest: &Guest<'_>, gfn: u64) -> Result<(), Fault> {
        // SAFETY: By the type invariants the page is ours, and `self` is borrowed exclusively.
        let bytes =
            unsafe { core::slice::from_raw_parts_mut(ffi::frame_address(self.0.get()), PAGE_SIZE) };
        guest.read(gfn << PAGE_SHIFT, bytes)
    }

    /// Writes the page into a guest's frame.
    pub(crate) fn write_to(&self, guest: &Guest<'_>, gfn: u64) -> Result<(), Fault> {
        // SAFETY: By the type invariants the page is ours; it is only read.
        let bytes =
            unsafe { core::slice::from_raw_parts(ffi::frame_address(self.0.get()), PAGE_SIZE) };
        guest.write(gfn << PAGE_SHIFT, bytes)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { ffi::free_frame(self.0.get()) };
    }
}

const PAGE_SHIFT: u32 = PAGE_SIZE.ilog2();

/// Pages on their way out: they are freed when this is dropped, after the lock is gone.
pub(crate) struct Bin {
    pages: [Option<Page>; Self::SIZE],
    count: usize,
}

impl Bin {
    /// How many removals a step under a lock may do.
    pub(crate) const SIZE: usize = 64;

    pub(crate) fn new() -> Self {
        Self {
            pages: [const { None }; Self::SIZE],
            count: 0,
        }
    }

    /// Adds the page of an entry that left the index.
    pub(crate) fn add(&mut self, removed: Removed) {
        // Beyond the size it would be freed at once, which is slower under a lock, not wrong.
        if let Some(place) = self.pages.get_mut(self.count) {
            *place = Page::from_removed(removed);
        } else {
            drop(Page::from_removed(removed));
        }
        self.count += 1;
    }

    /// Pages added.
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

const _: () = assert!(MAX_HANDLE >= (1 << 52 >> PAGE_SHIFT) - 1);
