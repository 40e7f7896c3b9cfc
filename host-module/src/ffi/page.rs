// SPDX-License-Identifier: GPL-2.0-only

//! Pages of the host, identified by their frame numbers (`shim/page.c`).

use core::ffi::c_void;

extern "C" {
    fn dd_pages_alloc(frames: *mut u64, count: usize, below_floor: bool) -> usize;
    fn dd_page_free(frame: u64);
    fn dd_page_share(frame: u64);
    fn dd_page_shared(frame: u64) -> bool;
    fn dd_page_address(frame: u64) -> *mut c_void;
    fn dd_pages_total() -> u64;
    fn dd_pages_spare() -> u64;
}

/// Allocates pages, stores their frame numbers in `frames` and returns how many it allocated.
/// Memory that the host cannot spare is allocated only if the tier is below its floor
/// (`below_floor`).
pub(crate) fn allocate(frames: &mut [u64], below_floor: bool) -> usize {
    // SAFETY: The slice has the length given.
    unsafe { dd_pages_alloc(frames.as_mut_ptr(), frames.len(), below_floor) }
}

/// Frees a page.
///
/// # Safety
///
/// It came from [`allocate`] and is not in use.
pub(crate) unsafe fn free(frame: u64) {
    // SAFETY: By the function's contract.
    unsafe { dd_page_free(frame) };
}

/// Adds an owner to a page. Each owner has to [`free`] it.
///
/// # Safety
///
/// It came from [`allocate`] and was not freed.
pub(crate) unsafe fn share(frame: u64) {
    // SAFETY: By the function's contract.
    unsafe { dd_page_share(frame) };
}

/// Returns whether a page has several owners.
///
/// # Safety
///
/// It came from [`allocate`] and was not freed.
pub(crate) unsafe fn is_shared(frame: u64) -> bool {
    // SAFETY: By the function's contract.
    unsafe { dd_page_shared(frame) }
}

/// Returns the address of a page.
///
/// # Safety
///
/// It came from [`allocate`] and was not freed.
pub(crate) unsafe fn address(frame: u64) -> *mut u8 {
    // SAFETY: By the function's contract.
    unsafe { dd_page_address(frame).cast() }
}

/// Returns the size of the machine's memory in pages.
pub(crate) fn total() -> u64 {
    // SAFETY: Reads a number.
    unsafe { dd_pages_total() }
}

/// Returns the number of free pages of the machine beyond those that reclaim keeps free.
pub(crate) fn spare() -> u64 {
    // SAFETY: Reads numbers.
    unsafe { dd_pages_spare() }
}
