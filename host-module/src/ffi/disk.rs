// SPDX-License-Identifier: GPL-2.0-only

//! Block devices (`shim/disk.c`). Places on a device are counted in pages.

use crate::tier::page::Page;
use core::ffi::c_void;
use kernel::prelude::*;
use kernel::str::CStr;

extern "C" {
    fn dd_disk_open(path: *const c_char, pages: *mut u64) -> *mut c_void;
    fn dd_disk_close(disk: *mut c_void);
    fn dd_disk_dead(disk: *const c_void) -> bool;
    fn dd_disk_idle(disk: *const c_void) -> bool;
    fn dd_disk_clear(disk: *mut c_void, first: u64, count: u64) -> c_int;
    fn dd_disk_write(disk: *mut c_void, first: u64, frames: *const u64, count: usize) -> c_int;
    fn dd_disk_read(
        disk: *mut c_void,
        places: *const u64,
        frames: *const u64,
        count: usize,
        limit_us: u64,
    ) -> c_int;
    fn dd_page_checksum(frame: u64, seed: u64) -> u64;
}

/// A block device that this module alone has open. It is closed when this is dropped, which waits
/// for reads that were abandoned.
pub(crate) struct Disk {
    raw: *mut c_void,
    pages: u64,
}

// SAFETY: The block layer may be called from any task.
unsafe impl Send for Disk {}
// SAFETY: As above. The functions that take a `&Disk` may run at the same time.
unsafe impl Sync for Disk {}

impl Disk {
    /// Opens a device. The error is `EBUSY` if it is in use, for example mounted.
    pub(crate) fn open(path: &CStr) -> Result<Self> {
        let mut pages = 0;
        // SAFETY: The path ends with zero, and `pages` is a number of ours.
        let raw = unsafe { dd_disk_open(path.as_char_ptr(), &raw mut pages) };
        let raw = kernel::error::from_err_ptr(raw)?;
        Ok(Self { raw, pages })
    }

    /// Returns its size in pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns whether the device is gone.
    pub(crate) fn is_dead(&self) -> bool {
        // SAFETY: The disk is open until it is dropped, here and below.
        unsafe { dd_disk_dead(self.raw) }
    }

    /// Returns whether all reads have ended, also those that were abandoned.
    pub(crate) fn is_idle(&self) -> bool {
        // SAFETY: As above.
        unsafe { dd_disk_idle(self.raw) }
    }

    /// Overwrites pages with zeroes. May sleep.
    pub(crate) fn clear(&self, first: u64, count: u64) -> Result {
        // SAFETY: As above.
        kernel::error::to_result(unsafe { dd_disk_clear(self.raw, first, count) })
    }

    /// Writes pages of memory to consecutive places, and waits until they are written.
    pub(crate) fn write(&self, first: u64, pages: &[Option<Page>]) -> Result {
        let frames = Page::frames(pages).ok_or(EINVAL)?;
        // SAFETY: The slice has the length given, and the borrow keeps the pages.
        let error = unsafe { dd_disk_write(self.raw, first, frames.as_ptr(), frames.len()) };
        kernel::error::to_result(error)
    }

    /// Reads places into pages, of which there are as many, and waits for up to `limit` microseconds.
    /// If that is too short, the error is `ETIMEDOUT`, and the pages are gone.
    pub(crate) fn read(&self, places: &[u64], pages: &mut [Option<Page>], limit: u64) -> Result {
        let Some(frames) = Page::frames(pages).filter(|frames| frames.len() == places.len()) else {
            return Err(EINVAL);
        };
        let (places, count) = (places.as_ptr(), places.len());
        // SAFETY: Both slices have the length given, and the pages are borrowed exclusively.
        let error = unsafe { dd_disk_read(self.raw, places, frames.as_ptr(), count, limit) };
        let result = kernel::error::to_result(error);
        if result == Err(ETIMEDOUT) {
            for page in pages.iter_mut() {
                // The read frees them.
                if let Some(page) = page.take() {
                    core::mem::forget(page);
                }
            }
        }
        result
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // SAFETY: It is open, and no task uses it any more.
        unsafe { dd_disk_close(self.raw) };
    }
}

/// Returns a checksum of a page, which depends on a seed.
///
/// # Safety
///
/// The frame is a page of the host that the caller owns or shares.
pub(crate) unsafe fn checksum(frame: u64, seed: u64) -> u64 {
    // SAFETY: By the function's contract.
    unsafe { dd_page_checksum(frame, seed) }
}
