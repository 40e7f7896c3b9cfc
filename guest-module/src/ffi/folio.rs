// SPDX-License-Identifier: GPL-2.0

//! Folios (`shim/folio.c`).

use super::mapping::{Mapping, RawMapping};
use super::opaque;
use core::marker::PhantomData;
use core::ptr::NonNull;

opaque! {
    RawBatch: "`struct folio_batch`",
    RawFolio: "`struct folio`",
}

/// A look at a folio; mirrors `struct dd_folio`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct FolioView {
    pub(crate) index: u64,
    pub(crate) pfn: u64,
    pub(crate) pages: u32,
    fresh: u32,
    valid: u32,
    frozen: u32,
    refaulted: u32,
}

impl FolioView {
    /// May be filled by us: locked, empty, clean, idle, without private state.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh != 0
    }

    /// May be given away: up to date, clean, idle, without private state.
    pub(crate) fn is_valid(&self) -> bool {
        self.valid != 0
    }

    /// The kernel counts it to a working set: it came back soon after it had left.
    pub(crate) fn is_refaulted(&self) -> bool {
        self.refaulted != 0
    }

    /// No reference is left: it leaves by reclaim.
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

/// A folio that the running hook was handed: locked, or with no reference left.
///
/// # Invariants
///
/// The pointer is a folio that cannot be freed while the value lives.
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

    /// The folio as a number: compared, never followed.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// What it is like now.
    pub(crate) fn view(&self) -> FolioView {
        let mut view = FolioView::default();
        // SAFETY: By the type invariant.
        unsafe { dd_folio_view(self.0.as_ptr(), &mut view) };
        view
    }

    /// The mapping it belongs to.
    pub(crate) fn mapping(&self) -> Option<Mapping<'_>> {
        // SAFETY: By the type invariant; a locked or removed-from folio keeps its mapping while
        // the hook runs.
        unsafe { Mapping::from_raw(dd_folio_mapping(self.0.as_ptr())) }
    }

    /// Has the hypervisor bring in the memory of its first pages, whose content stays.
    pub(crate) fn touch(&self, pages: u32) {
        // SAFETY: By the type invariant; callers hold the lock of a folio under read, and name no
        // more pages than it has.
        unsafe { dd_folio_touch(self.0.as_ptr(), pages) };
    }

    /// Zeroes its pages from `first` on.
    pub(crate) fn zero_tail(&self, first: u32) {
        // SAFETY: By the type invariant; callers hold the lock of a folio under read.
        unsafe { dd_folio_zero_tail(self.0.as_ptr(), first) };
    }

    /// Ids of its cgroup and that one's ancestors, nearest first.
    pub(crate) fn cgroups<'b>(&self, ids: &'b mut [u64]) -> &'b [u64] {
        // SAFETY: By the type invariant; at most `ids.len()` ids are written.
        let count =
            unsafe { dd_folio_cgroups(self.0.as_ptr(), ids.as_mut_ptr(), ids.len() as u32) };
        &ids[..(count as usize).min(ids.len())]
    }

    /// Ends a `read_folio` with the folio up to date.
    pub(crate) fn end_read(self) {
        // SAFETY: By the type invariant; the caller holds the lock and gives it up.
        unsafe { dd_read_filled(self.0.as_ptr()) };
    }
}

/// The folios of a batch that is about to be freed.
///
/// # Safety
///
/// `batch` must be live, with folios that only the caller can free, for the lifetime of the result.
pub(crate) unsafe fn batch_folios<'a>(batch: *const RawBatch) -> impl Iterator<Item = Folio<'a>> {
    let mut folios = core::ptr::null();
    // SAFETY: By the function's contract.
    let count = unsafe { dd_batch_folios(batch, &mut folios) } as usize;
    // SAFETY: The shim answered with the batch's array and its length.
    (0..count).filter_map(move |n| unsafe { Folio::from_raw(*folios.add(n)) })
}
