// SPDX-License-Identifier: GPL-2.0-only

//! Entry points that the C shim calls: hooks and the background job. Each function converts C
//! pointers to safe types and calls safe code.

use crate::ffi::change::Change;
use crate::ffi::folio::{batch_folios, Folio, RawBatch, RawFolio};
use crate::ffi::mapping::{Mapping, RawMapping, RawSuperblock};
use crate::ffi::readahead::{read_original, RawFile, RawWindow, Window};
use crate::ffi::worker::Delay;
use crate::hooks::{put, read};
use crate::host::{session, worker};
use crate::state::{state, State};
use ddabi::key::FileKey;
use kernel::ffi::{c_int, c_uint};

/// Called when a folio was removed from its mapping. `i_pages` is locked and interrupts are off.
#[no_mangle]
extern "C" fn dd_on_folio_removed(folio: *mut RawFolio, reclaimed: bool) {
    // SAFETY: The caller holds the folio's lock or its last references.
    if let (Some(state), Some(folio)) = (state(), unsafe { Folio::from_raw(folio) }) {
        put::folio_removed(state, &folio, reclaimed);
    }
}

/// Called before folios that have no reference left are freed. Any context.
#[no_mangle]
extern "C" fn dd_on_folios_freed(batch: *mut RawBatch) {
    if let Some(state) = state() {
        // SAFETY: The batch belongs to the hooked call, which waits for this one.
        put::folios_freed(state, || unsafe { batch_folios(batch) });
    }
}

/// Called when pages `first..=last` change or leave the page cache. Locks may be held and
/// interrupts may be off.
#[no_mangle]
extern "C" fn dd_on_content_change(
    mapping: *mut RawMapping,
    first: u64,
    last: u64,
    change: c_uint,
) {
    // SAFETY: The hooked function works on the mapping, so that it is live.
    if let Some((state, file)) = unsafe { cached(mapping) } {
        state.content_changed(&file, (first, last), Change::from_raw(change));
    }
}

/// Called when pages `first..=last` change or leave the page cache and may be many. Process context
/// without spinlocks.
#[no_mangle]
extern "C" fn dd_on_range_change(mapping: *mut RawMapping, first: u64, last: u64, change: c_uint) {
    // SAFETY: The diverted call works on the mapping, so that it is live.
    if let Some((state, file)) = unsafe { cached(mapping) } {
        state.range_changed(&file, (first, last), Change::from_raw(change));
    }
}

/// Returns the module's state and the key of a mapping whose pages may be at the host; `None` for
/// other mappings.
///
/// # Safety
///
/// `mapping` must be null or live.
unsafe fn cached(mapping: *mut RawMapping) -> Option<(&'static State, FileKey)> {
    let state = state()?;
    // SAFETY: By the function's contract.
    let mapping = unsafe { Mapping::from_raw(mapping) }?;
    // Most mappings belong to other filesystems, of which nothing but the superblock may be
    // accessed.
    let filesystem = state.filesystems.find(mapping.superblock())?;
    Some((state, mapping.view().key(filesystem)))
}

/// Called before a superblock is shut down, and after it (`done`).
#[no_mangle]
extern "C" fn dd_on_shutdown(superblock: *const RawSuperblock, done: bool) {
    if let Some(state) = state() {
        state.unmount(superblock as usize, done);
    }
}

/// Returns whether reads are diverted to this module. Any context.
#[no_mangle]
extern "C" fn dd_on_readahead_wanted() -> bool {
    state().is_some_and(|state| state.channel.session().is_some())
}

/// Called in place of a filesystem's `readahead`.
#[no_mangle]
extern "C" fn dd_on_readahead(rac: *mut RawWindow) {
    // SAFETY: The window of the diverted call is live until that returns.
    if let (Some(state), Some(mut window)) = (state(), unsafe { Window::from_raw(rac) }) {
        read::readahead(state, &mut window);
    }
}

/// Called in place of a filesystem's `read_folio`.
#[no_mangle]
extern "C" fn dd_on_read_folio(file: *mut RawFile, folio: *mut RawFolio) -> c_int {
    // SAFETY: The caller of `read_folio` holds the folio's lock.
    if let (Some(state), Some(locked)) = (state(), unsafe { Folio::from_raw(folio) }) {
        if read::read_folio(state, locked) {
            return 0;
        }
    }
    // SAFETY: These are the arguments of the diverted call, and the folio is untouched.
    unsafe { read_original(file, folio) }
}

/// Runs one round of the background job. Returns the milliseconds until the next round, or 0 for
/// none.
#[no_mangle]
extern "C" fn dd_on_worker_run() -> Delay {
    state().map_or(0, worker::run)
}

/// Called when hibernation or a reboot begins (`pause`), and when hibernation is over.
#[no_mangle]
extern "C" fn dd_on_pause(pause: bool) {
    if let Some(state) = state() {
        session::set_paused(state, pause);
    }
}
