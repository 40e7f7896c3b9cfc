// SPDX-License-Identifier: GPL-2.0-only

//! Pages of the host, identified by their frame numbers (`shim/page.c`).

use core::ffi::c_void;
use kernel::prelude::*;

extern "C" {
    fn dd_pages_alloc(frames: *mut u64, count: usize, below_floor: bool) -> usize;
    fn dd_page_free(frame: u64);
    fn dd_page_share(frame: u64);
    fn dd_page_shared(frame: u64) -> bool;
    fn dd_page_address(frame: u64) -> *mut c_void;
    fn dd_page_checksum(frame: u64, seed: u64) -> u64;
    fn dd_page_node(frame: u64) -> c_int;
    fn dd_pages_init() -> c_int;
    fn dd_pages_exit();
    fn dd_pages_on(nid: c_int) -> u64;
    fn dd_pages_total() -> u64;
    fn dd_pages_spare() -> u64;
}

/// The counters of pages of each NUMA node, which are freed when this is dropped.
pub(crate) struct NodeCounters(());

impl NodeCounters {
    /// Allocates the counters.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Called once, from module init.
        kernel::error::to_result(unsafe { dd_pages_init() })?;
        Ok(Self(()))
    }
}

impl Drop for NodeCounters {
    fn drop(&mut self) {
        // SAFETY: Allocated by construction. It is the last that the module drops, so that all
        // pages are freed.
        unsafe { dd_pages_exit() };
    }
}

/// Returns the number of allocated pages of a NUMA node, which must be a node of this machine. The
/// counters must exist.
pub(crate) fn on_node(node: usize) -> u64 {
    // SAFETY: Reads the counters of the node.
    unsafe { dd_pages_on(node as c_int) }
}

/// Returns the NUMA node of a page, or `None` if the machine has only one.
///
/// # Safety
///
/// The page came from [`allocate`] and was not freed.
pub(crate) unsafe fn node(frame: u64) -> Option<usize> {
    // SAFETY: By the function's contract.
    usize::try_from(unsafe { dd_page_node(frame) }).ok()
}

/// Allocates pages, stores their frame numbers in `frames`, which must be all zero, and returns how
/// many it allocated. The other elements stay zero.
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

/// Returns a checksum of a page, which depends on a seed.
///
/// # Safety
///
/// The frame is a page of the host that the caller owns or shares.
pub(crate) unsafe fn checksum(frame: u64, seed: u64) -> u64 {
    // SAFETY: By the function's contract.
    unsafe { dd_page_checksum(frame, seed) }
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
