// SPDX-License-Identifier: GPL-2.0-only

//! Folios (`shim/folio.c`).

use super::mapping::{Mapping, RawMapping};
use super::opaque;
use core::marker::PhantomData;
use core::ptr::NonNull;

opaque! {
    RawBatch: "`struct folio_batch`",
    RawFolio: "`struct folio`",
}

/// The state of a folio at one moment; mirrors `struct dd_folio`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct FolioView {
    /// Index of the first page in the file.
    pub(crate) index: u64,
    /// First frame.
    pub(crate) pfn: u64,
    /// Number of pages.
    pub(crate) pages: u32,
    fresh: u32,
    valid: u32,
    frozen: u32,
    refaulted: u32,
}

impl FolioView {
    /// Returns whether the module may fill the folio: it is locked, not up to date, clean, idle and
    /// without private state.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh != 0
    }

    /// Returns whether the folio may be put: it is up to date, clean, idle and without private
    /// state.
    pub(crate) fn is_valid(&self) -> bool {
        self.valid != 0
    }

    /// Returns whether the kernel considers the folio part of a working set, because it was read
    /// again soon after it had been reclaimed.
    pub(crate) fn is_refaulted(&self) -> bool {
        self.refaulted != 0
    }

    /// Returns whether no reference is left, which is the case only if reclaim removes the folio.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen != 0
    }
}

extern "C" {
    fn dd_folio_view(folio: *mut RawFolio, view: *mut FolioView);
    fn dd_folio_mapping(folio: *mut RawFolio) -> *mut RawMapping;
    fn dd_batch_folios(batch: *const RawBatch, folios: *mut *const *mut RawFolio) -> u32;
    fn dd_folio_touch(folio: *mut RawFolio, pages: u32);
    fn dd_folio_zero_tail(folio: *mut RawFolio, first: u32);
    fn dd_folio_cgroups(folio: *mut RawFolio, ids: *mut u64, max: u32) -> u32;
    fn dd_read_filled(folio: *mut RawFolio);
}

/// A folio that the running hook was given: locked, or without references.
///
/// # Invariants
///
/// The pointer is a folio that is not freed while the value lives.
#[derive(Clone, Copy)]
pub(crate) struct Folio<'a>(NonNull<RawFolio>, PhantomData<&'a RawFolio>);

impl Folio<'_> {
    /// # Safety
    ///
    /// `raw` must be a folio that is not freed while the value lives.
    pub(crate) unsafe fn from_raw(raw: *mut RawFolio) -> Option<Self> {
        // INVARIANT: By the function's contract.
        NonNull::new(raw).map(|raw| Self(raw, PhantomData))
    }

    /// Returns the folio's address. It is never dereferenced.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Returns the state of the folio now.
    pub(crate) fn view(&self) -> FolioView {
        let mut view = FolioView::default();
        // SAFETY: By the type invariant.
        unsafe { dd_folio_view(self.0.as_ptr(), &mut view) };
        view
    }

    /// Returns the mapping that the folio belongs to.
    pub(crate) fn mapping(&self) -> Option<Mapping<'_>> {
        // SAFETY: By the type invariant; a folio that is locked or being removed keeps its mapping
        // while the hook runs.
        unsafe { Mapping::from_raw(dd_folio_mapping(self.0.as_ptr())) }
    }

    /// Writes to the folio's first `pages` pages without changing them, so that the hypervisor
    /// makes them present.
    pub(crate) fn touch(&self, pages: u32) {
        // SAFETY: By the type invariant; callers hold the lock of a folio under read, and name no
        // more pages than it has.
        unsafe { dd_folio_touch(self.0.as_ptr(), pages) };
    }

    /// Zeroes the folio's pages from `first` on.
    pub(crate) fn zero_tail(&self, first: u32) {
        // SAFETY: By the type invariant; callers hold the lock of a folio under read.
        unsafe { dd_folio_zero_tail(self.0.as_ptr(), first) };
    }

    /// Returns the ids of the folio's cgroup and of the ancestors of that cgroup, nearest first.
    pub(crate) fn cgroups<'b>(&self, ids: &'b mut [u64]) -> &'b [u64] {
        // SAFETY: By the type invariant; at most `ids.len()` ids are written.
        let count =
            unsafe { dd_folio_cgroups(self.0.as_ptr(), ids.as_mut_ptr(), ids.len() as u32) };
        &ids[..(count as usize).min(ids.len())]
    }

    /// Ends a `read_folio`: marks the folio up to date and unlocks it.
    pub(crate) fn end_read(self) {
        // SAFETY: By the type invariant; the caller holds the lock and gives it up.
        unsafe { dd_read_filled(self.0.as_ptr()) };
    }
}

/// Returns the folios of a batch that is about to be freed.
///
/// # Safety
///
/// `batch` must be live for the lifetime of the result, with folios that only the caller can free.
pub(crate) unsafe fn batch_folios<'a>(batch: *const RawBatch) -> impl Iterator<Item = Folio<'a>> {
    let mut folios = core::ptr::null();
    // SAFETY: By the function's contract.
    let count = unsafe { dd_batch_folios(batch, &mut folios) } as usize;
    // SAFETY: The shim returned the array of the batch and its length.
    (0..count).filter_map(move |n| unsafe { Folio::from_raw(*folios.add(n)) })
}
