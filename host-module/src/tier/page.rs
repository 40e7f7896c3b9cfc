// SPDX-License-Identifier: GPL-2.0-only

//! Pages with the data that guests put. A page usually has one owner; dropping the last owner frees
//! it.
//!
//! A page is in the host's memory or on a device of the SSD tier.

use crate::ffi::kvm::{CallingVm, Fault};
use crate::ffi::page;
use crate::memory::without_waiting;
use crate::state::host;
use core::num::NonZeroU64;
use ddabi::PAGE_SIZE;
use ddcore::host::room::{draw, retire};
use ddcore::index::{Held, Removed, PLACED};
use ddcore::ssd::place::Place;
use kernel::alloc::AllocError;
use kernel::prelude::*;

/// A page of host memory, or the place of a page on a device.
///
/// # Invariants
///
/// The number is a handle of the index. Without the bit [`PLACED`] it is a frame that came from
/// [`page::allocate`] and is owned by this value alone, unless it was shared by [`Page::share`] or
/// [`Page::of_index`]. With the bit it is a place that was given to this value alone, unless it was
/// shared.
#[repr(transparent)]
pub(crate) struct Page(NonZeroU64);

impl Page {
    /// Fills `pages` with new pages while the host can spare memory or the tier is below its floor,
    /// and returns their number.
    pub(crate) fn allocate(pages: &mut [Option<Self>], below_floor: bool) -> usize {
        pages.fill_with(|| None);
        // SAFETY: An absent page is zero, and a page in memory its frame number
        // (`repr(transparent)` over a number that is not zero), so that an option of it has the
        // layout of a number.
        // INVARIANT: The frames were just allocated and are known to no other task.
        let frames: &mut [u64] =
            unsafe { core::slice::from_raw_parts_mut(pages.as_mut_ptr().cast(), pages.len()) };
        page::allocate(frames, below_floor)
    }

    /// Returns `count` pages of the stock, or new ones, if the host can spare memory for all of
    /// them. Does not wait.
    pub(crate) fn several(count: usize) -> Result<KVec<Option<Self>>, AllocError> {
        let mut pages = Self::absent(count)?;
        let host = host().ok_or(AllocError)?;
        if draw(host, &mut pages, false) == count {
            return Ok(pages);
        }
        retire(host, &mut pages);
        Err(AllocError)
    }

    /// Returns a vector of `count` absent pages. Does not wait.
    pub(crate) fn absent(count: usize) -> Result<KVec<Option<Self>>, AllocError> {
        let mut pages = KVec::with_capacity(count, without_waiting())?;
        for _ in 0..count {
            pages.push(None, without_waiting())?;
        }
        Ok(pages)
    }

    /// Creates a page for a place. The caller must own the place and passes it to the page.
    pub(crate) fn at(place: Place) -> Self {
        // INVARIANT: The caller was given the place.
        Self(NonZeroU64::new(place.handle()).unwrap_or(NonZeroU64::MIN))
    }

    /// Returns the frame of a page in memory.
    pub(crate) fn frame(&self) -> Option<u64> {
        (self.0.get() & PLACED == 0).then_some(self.0.get())
    }

    /// Returns the NUMA node of a page in memory, or `None` if the host has only one.
    pub(crate) fn node(&self) -> Option<usize> {
        // SAFETY: By the type invariants.
        self.frame().and_then(|frame| unsafe { page::node(frame) })
    }

    /// Returns the place of a page on a device.
    pub(crate) fn place(&self) -> Option<Place> {
        Place::of(self.0.get())
    }

    /// Returns another owner of a page that is in the index.
    pub(crate) fn of_index(held: Held<'_>) -> Option<Self> {
        let handle = NonZeroU64::new(held.handle())?;
        match Place::of(handle.get()) {
            // The index owns a reference and is borrowed, so that the place is not reused in the
            // meantime.
            Some(place) => host()?.ssd.hold(place).then_some(Self(handle)),
            None => {
                // SAFETY: The index has the page, as for `from_removed`, and is borrowed.
                unsafe { page::share(handle.get()) };
                Some(Self(handle))
            }
        }
    }

    /// Returns another owner of a page in memory, which is freed with its last owner. None of them
    /// writes to it.
    pub(crate) fn share(&self) -> Option<Self> {
        let frame = self.frame()?;
        // SAFETY: By the type invariants.
        unsafe { page::share(frame) };
        Some(Self(self.0))
    }

    /// Returns whether this is the only owner of a page in memory, so that it may be filled again.
    pub(crate) fn is_exclusive(&self) -> bool {
        let Some(frame) = self.frame() else {
            return false;
        };
        // SAFETY: By the type invariants.
        !unsafe { page::is_shared(frame) }
    }

    /// Returns a checksum of a page in memory, which depends on a seed.
    pub(crate) fn checksum(&self, seed: u64) -> Option<u32> {
        let frame = self.frame()?;
        // SAFETY: By the type invariants the page is ours; it is only read.
        Some(unsafe { page::checksum(frame, seed) } as u32)
    }

    /// Returns the frames of pages that are all in memory.
    pub(crate) fn frames(pages: &[Option<Self>]) -> Option<&[u64]> {
        let is_in_memory =
            |page: &Option<Self>| page.as_ref().is_some_and(|page| page.frame().is_some());
        if !pages.iter().all(is_in_memory) {
            return None;
        }
        // SAFETY: A page in memory is its frame number (`repr(transparent)`), which is not zero, so
        // that an option of it has the same layout.
        Some(unsafe { core::slice::from_raw_parts(pages.as_ptr().cast(), pages.len()) })
    }

    /// Converts a page that the index has removed.
    pub(crate) fn from_removed(removed: Removed) -> Option<Self> {
        // INVARIANT: All handles in our indices are of pages that were left to them by `keep`, and
        // an index returns each of them once, in a value that cannot be copied.
        NonZeroU64::new(removed.into_handle()).map(Self)
    }

    /// Fills pages from consecutive frames of a guest. After an error the content of all of them is
    /// undefined.
    pub(crate) fn fill(
        pages: &mut [Option<Self>],
        guest: &CallingVm<'_>,
        gfn: u64,
    ) -> Result<(), Fault> {
        let frames = Self::frames(pages).ok_or(Fault::NoMemory)?;
        // SAFETY: By the type invariants the pages are ours, and `pages` is borrowed exclusively.
        // They are not initialised: only the shim has their address.
        unsafe { guest.fill(gfn, frames) }
    }

    /// Writes the page into a guest's frame.
    pub(crate) fn write_to(&self, guest: &CallingVm<'_>, gfn: u64) -> Result<(), Fault> {
        // A page on a device has no data in memory, because it could not be read.
        let frame = self.frame().ok_or(Fault::NoMemory)?;
        // SAFETY: By the type invariants the page is ours; it is only read.
        let bytes = unsafe { core::slice::from_raw_parts(page::address(frame), PAGE_SIZE) };
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
        if let Some(place) = self.place() {
            // Without a state there are no devices.
            if let Some(host) = host() {
                host.ssd.release(place);
            }
            return;
        }
        // SAFETY: By the type invariants.
        unsafe { page::free(self.0.get()) };
    }
}

const PAGE_SHIFT: u32 = PAGE_SIZE.ilog2();

// [`PLACED`] must be above all frame numbers of 51-bit physical addresses (2 PiB).
const _: () = assert!(PLACED == 1 << 51 >> PAGE_SHIFT);
