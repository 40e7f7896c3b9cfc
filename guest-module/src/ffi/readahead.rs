// SPDX-License-Identifier: GPL-2.0-only

//! Readahead windows, and reads by the filesystem itself (`shim/readahead.c`).

use super::folio::{Folio, RawFolio};
use super::mapping::{Mapping, RawMapping};
use super::opaque;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::ffi::c_int;

opaque! {
    RawFile: "`struct file`",
    RawWindow: "`struct readahead_control`",
}

extern "C" {
    fn dd_ra_window(rac: *const RawWindow, index: *mut u64, pages: *mut u32);
    fn dd_ra_mapping(rac: *const RawWindow) -> *mut RawMapping;
    fn dd_ra_folio(rac: *const RawWindow, index: u64) -> *mut RawFolio;
    fn dd_ra_filled(folio: *mut RawFolio);
    fn dd_ra_original(rac: *mut RawWindow, index: u64, pages: u32);
    fn dd_ra_consume(rac: *mut RawWindow, pages: u32);
    fn dd_ra_widen(rac: *mut RawWindow, pages: u32);
    fn dd_read_original(file: *mut RawFile, folio: *mut RawFolio) -> c_int;
}

/// A readahead window that a filesystem was asked to read.
///
/// # Invariants
///
/// The pointer is the live window of the running call.
pub(crate) struct Window<'a>(NonNull<RawWindow>, PhantomData<&'a mut RawWindow>);

impl Window<'_> {
    /// # Safety
    ///
    /// `raw` must be the window of a running `readahead` call.
    pub(crate) unsafe fn from_raw(raw: *mut RawWindow) -> Option<Self> {
        // INVARIANT: By the function's contract.
        NonNull::new(raw).map(|raw| Self(raw, PhantomData))
    }

    /// Returns the index of the first page that remains to be read, and the number of remaining
    /// pages.
    pub(crate) fn rest(&self) -> (u64, u32) {
        let (mut index, mut pages) = (0, 0);
        // SAFETY: By the type invariant.
        unsafe { dd_ra_window(self.0.as_ptr(), &mut index, &mut pages) };
        (index, pages)
    }

    /// Returns the mapping of the file.
    pub(crate) fn mapping(&self) -> Option<Mapping<'_>> {
        // SAFETY: By the type invariant.
        unsafe { Mapping::from_raw(dd_ra_mapping(self.0.as_ptr())) }
    }

    /// Returns the folio at `index`, which must be in the window. It is locked, and the window
    /// holds a reference to it.
    pub(crate) fn folio(&self, index: u64) -> Option<Folio<'_>> {
        // SAFETY: By the type invariant; folios of a window are locked and referenced until
        // they are consumed.
        unsafe { Folio::from_raw(dd_ra_folio(self.0.as_ptr(), index)) }
    }

    /// Ends the read of the folio at `index`: marks it up to date, unlocks it and drops the
    /// reference.
    pub(crate) fn filled(&mut self, index: u64) {
        // SAFETY: By the type invariant; as for `folio`, and this is its last use.
        unsafe {
            let folio = dd_ra_folio(self.0.as_ptr(), index);
            if !folio.is_null() {
                dd_ra_filled(folio);
            }
        }
    }

    /// Lets the filesystem read `pages` pages from `index` on.
    pub(crate) fn read(&mut self, index: u64, pages: u32) {
        if pages > 0 {
            // SAFETY: By the type invariant; a part of the window that was not read yet.
            unsafe { dd_ra_original(self.0.as_ptr(), index, pages) };
        }
    }

    /// Removes the first `pages` pages from the window, because they were read.
    pub(crate) fn consume(&mut self, pages: u32) {
        // SAFETY: By the type invariant; the caller passes no more than are left.
        unsafe { dd_ra_consume(self.0.as_ptr(), pages) };
    }

    /// Sets the size of the file's next windows to `pages` pages; 0 restores the device's setting.
    pub(crate) fn widen(&mut self, pages: u32) {
        // SAFETY: By the type invariant.
        unsafe { dd_ra_widen(self.0.as_ptr(), pages) };
    }
}

/// Lets the filesystem read a folio.
///
/// # Safety
///
/// `file` and `folio` must be the arguments of the diverted `read_folio`.
pub(crate) unsafe fn read_original(file: *mut RawFile, folio: *mut RawFolio) -> c_int {
    // SAFETY: By the function's contract.
    unsafe { dd_read_original(file, folio) }
}
