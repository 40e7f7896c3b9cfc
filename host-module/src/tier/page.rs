// SPDX-License-Identifier: GPL-2.0-only

//! Pages that hold what guests put. A page has one owner; dropping it frees it.

use crate::ffi::kvm::{CallingVm, Fault};
use crate::ffi::page;
use core::num::NonZeroU64;
use ddabi::PAGE_SIZE;
use ddcore::store::{Removed, MAX_HANDLE};

/// A page of host memory.
///
/// # Invariants
///
/// The frame came from [`page::allocate`] and is owned by this value alone.
#[repr(transparent)]
pub(crate) struct Page(NonZeroU64);

impl Page {
    /// Fills `pages` with new pages, as far as the host can spare memory or the tier is below its
    /// floor, and returns their number.
    pub(crate) fn allocate(pages: &mut [Option<Self>], below_floor: bool) -> usize {
        const CHUNK: usize = 64;
        let mut total = 0;
        for chunk in pages.chunks_mut(CHUNK) {
            let mut frames = [0; CHUNK];
            let wanted = chunk.len();
            let got = page::allocate(&mut frames[..wanted], below_floor);
            for (page, frame) in chunk.iter_mut().zip(&frames[..got]) {
                // INVARIANT: It was just allocated and is known to no other task.
                *page = NonZeroU64::new(*frame).map(Self);
            }
            total += got;
            if got < wanted {
                break;
            }
        }
        total
    }

    /// Takes a page back from the index that has let it go.
    pub(crate) fn from_removed(removed: Removed) -> Option<Self> {
        // INVARIANT: All handles in our stores are of pages that were left to them by `keep`, and
        // a store returns each of them once, in a value that cannot be copied.
        NonZeroU64::new(removed.into_handle()).map(Self)
    }

    /// Fills pages from consecutive frames of a guest: all of them, or none may be kept.
    pub(crate) fn fill(
        pages: &mut [Option<Self>],
        guest: &CallingVm<'_>,
        gfn: u64,
    ) -> Result<(), Fault> {
        if pages.iter().any(Option::is_none) {
            return Err(Fault::NoMemory);
        }
        // SAFETY: A page is its frame number (`repr(transparent)`), which is not zero, so that an
        // option of it has the same layout.
        let frames = unsafe { core::slice::from_raw_parts(pages.as_ptr().cast(), pages.len()) };
        // SAFETY: By the type invariants the pages are ours, and `pages` is borrowed exclusively.
        // They are not initialised: only the shim has their address.
        unsafe { guest.fill(gfn, frames) }
    }

    /// Writes the page into a guest's frame.
    pub(crate) fn write_to(&self, guest: &CallingVm<'_>, gfn: u64) -> Result<(), Fault> {
        // SAFETY: By the type invariants the page is ours; it is only read.
        let bytes = unsafe { core::slice::from_raw_parts(page::address(self.0.get()), PAGE_SIZE) };
        guest.write(gfn << PAGE_SHIFT, bytes)
    }
}

impl ddcore::host::carried::Page for Page {
    fn handle(&self) -> u64 {
        self.0.get()
    }

    fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { page::free(self.0.get()) };
    }
}

const PAGE_SHIFT: u32 = PAGE_SIZE.ilog2();

const _: () = assert!(MAX_HANDLE >= (1 << 52 >> PAGE_SHIFT) - 1);
