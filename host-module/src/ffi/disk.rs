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
    fn dd_disk_discards(disk: *const c_void) -> bool;
    fn dd_disk_discard(disk: *mut c_void, first: u64, count: u64) -> c_int;
    fn dd_disk_write(
        disk: *mut c_void,
        first: u64,
        frames: *const u64,
        count: usize,
        stream: u32,
    ) -> c_int;
    fn dd_disk_begin(
        disk: *mut c_void,
        places: *const u64,
        frames: *const u64,
        count: usize,
        nowait: bool,
    ) -> *mut c_void;
    fn dd_disk_has_read(read: *mut c_void) -> bool;
    fn dd_disk_finish(read: *mut c_void, limit_us: u64, took_us: *mut u64) -> c_int;
}

/// A block device that this module has opened exclusively. Dropping it waits for reads that were
/// abandoned and closes the device.
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

    /// Returns the size of the device in pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns whether the device is gone.
    pub(crate) fn is_dead(&self) -> bool {
        // SAFETY: The disk is open until it is dropped, here and below.
        unsafe { dd_disk_dead(self.raw) }
    }

    /// Returns whether all reads have ended, abandoned ones included.
    pub(crate) fn is_idle(&self) -> bool {
        // SAFETY: As above.
        unsafe { dd_disk_idle(self.raw) }
    }

    /// Overwrites pages with zeroes. May sleep.
    pub(crate) fn clear(&self, first: u64, count: u64) -> Result {
        // SAFETY: As above.
        kernel::error::to_result(unsafe { dd_disk_clear(self.raw, first, count) })
    }

    /// Returns whether the device supports discards.
    pub(crate) fn discards(&self) -> bool {
        // SAFETY: As above.
        unsafe { dd_disk_discards(self.raw) }
    }

    /// Discards pages: the device need not keep their contents. May sleep.
    pub(crate) fn discard(&self, first: u64, count: u64) -> Result {
        // SAFETY: As above.
        kernel::error::to_result(unsafe { dd_disk_discard(self.raw, first, count) })
    }

    /// Writes pages of memory to consecutive places and waits until they are written. Pages with
    /// the same `stream` become invalid together.
    pub(crate) fn write(&self, first: u64, pages: &[Option<Page>], stream: u32) -> Result {
        let frames = Page::frames(pages).ok_or(EINVAL)?;
        let count = frames.len();
        // SAFETY: The slice has the length given, and the borrow keeps the pages.
        let error = unsafe { dd_disk_write(self.raw, first, frames.as_ptr(), count, stream) };
        kernel::error::to_result(error)
    }

    /// Begins to read each of the places into the page with the same position. The read owns the
    /// pages until it is finished; after an error they are freed. Waits neither for the device nor
    /// for memory. If `nowait` is set, the read fails while all requests of the device are in use;
    /// otherwise it begins when one is free. The error is `EINVAL` if there are not as many pages
    /// as places.
    pub(crate) fn begin(
        &self,
        places: &[u64],
        pages: KVec<Option<Page>>,
        nowait: bool,
    ) -> Result<Reading> {
        let Some(frames) = Page::frames(&pages).filter(|frames| frames.len() == places.len())
        else {
            return Err(EINVAL);
        };
        let (places, count) = (places.as_ptr(), places.len());
        // SAFETY: Both slices have the length given, and the pages are owned by this function.
        let raw = unsafe { dd_disk_begin(self.raw, places, frames.as_ptr(), count, nowait) };
        let raw = kernel::error::from_err_ptr(raw)?;
        Ok(Reading { raw, pages })
    }
}

/// A read that has begun, and the pages that it fills. It may outlive its [`Disk`]. Dropping it
/// abandons the read: its pages are freed once the device has ended it.
pub(crate) struct Reading {
    /// Null once the read has been finished.
    raw: *mut c_void,
    pages: KVec<Option<Page>>,
}

// SAFETY: A read may be finished by any task.
unsafe impl Send for Reading {}

impl Reading {
    /// Returns whether the device has ended the read, so that [`Reading::finish`] does not wait.
    pub(crate) fn has_ended(&self) -> bool {
        // SAFETY: The read is valid as long as it is not null.
        self.raw.is_null() || unsafe { dd_disk_has_read(self.raw) }
    }

    /// Waits up to `limit` microseconds for the end of the read. Returns the pages, and the number
    /// of microseconds that the device took. The error is `ETIMEDOUT` if the read has not ended by
    /// then.
    pub(crate) fn finish(mut self, limit: u64) -> Result<(KVec<Option<Page>>, u64)> {
        let took = self.end(limit)?;
        Ok((core::mem::take(&mut self.pages), took))
    }

    fn end(&mut self, limit: u64) -> Result<u64> {
        let raw = core::mem::replace(&mut self.raw, core::ptr::null_mut());
        if raw.is_null() {
            return Err(EINVAL);
        }
        let mut took = 0;
        // SAFETY: It is valid, and was just taken out, so that this is its last use.
        let result = kernel::error::to_result(unsafe { dd_disk_finish(raw, limit, &raw mut took) });
        if result == Err(ETIMEDOUT) {
            for page in self.pages.iter_mut().filter_map(Option::take) {
                // The device may still write to it. The read frees it.
                core::mem::forget(page);
            }
        }
        result.map(|()| took)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let _ = self.end(0);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // SAFETY: It is open, and no task uses it.
        unsafe { dd_disk_close(self.raw) };
    }
}
