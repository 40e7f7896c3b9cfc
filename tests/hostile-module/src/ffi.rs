// SPDX-License-Identifier: GPL-2.0-only

//! The shim's functions, and memory that host and guest both write.

use core::ffi::c_void;
use ddabi::hypercall::{Outcome, NUMBER};
use ddabi::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Acquire, ordering::Release, Atomic};

extern "C" {
    fn dd_workers_start() -> c_int;
    fn dd_workers_stop();
    fn dd_worker_must_end() -> bool;
    fn dd_arena_map(base: u64, size: u64) -> *mut c_void;
    fn dd_arena_unmap(arena: *mut c_void);
    fn dd_hypercall(number: c_ulong, arguments: *const c_ulong) -> c_long;
    fn dd_tally_add(which: c_uint, amount: c_ulong);
}

/// Address of the mapped arena, or null.
static ARENA: Atomic<*const c_void> = Atomic::new(core::ptr::null());

/// Memory that the guest's kernel does not use: requests, answers, and all frames that the host is
/// asked to fill. Writes of the host reach no other memory.
pub(crate) struct Arena(*mut c_void);

// SAFETY: A mapping belongs to no thread.
unsafe impl Send for Arena {}
// SAFETY: As above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps `size` bytes of guest-physical memory at `base`.
    pub(crate) fn map(base: u64, size: u64) -> Result<Self> {
        // SAFETY: The kernel checks what is asked for.
        let arena = unsafe { dd_arena_map(base, size) };
        if arena.is_null() {
            return Err(ENOMEM);
        }
        ARENA.store(arena.cast_const(), Release);
        Ok(Self(arena))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        ARENA.store(core::ptr::null(), Release);
        // SAFETY: Mapped by construction; the workers, which use it, have ended.
        unsafe { dd_arena_unmap(self.0) };
    }
}

/// Copies bytes into a page of the arena. Callers ensure that `at + bytes.len()` is inside of it.
pub(crate) fn write(page: u64, at: usize, bytes: &[u8]) {
    if let Some(to) = place(page, at, bytes.len()) {
        // SAFETY: `place` is inside of the mapping. Host and other processors may write there at
        // the same time: that is what is being tested, and what is read is not trusted.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}

/// Copies bytes out of a page of the arena.
pub(crate) fn read(page: u64, at: usize, bytes: &mut [u8]) {
    if let Some(from) = place(page, at, bytes.len()) {
        // SAFETY: As in `write`.
        unsafe { core::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
    }
}

fn place(page: u64, at: usize, len: usize) -> Option<*mut u8> {
    let arena = ARENA.load(Acquire);
    if arena.is_null() || page >= crate::plan::pages() || at + len > PAGE_SIZE {
        return None;
    }
    let offset = page as usize * PAGE_SIZE + at;
    // SAFETY: Below the size of the mapping, as was just checked.
    Some(unsafe { arena.cast::<u8>().cast_mut().add(offset) })
}

/// Makes a hypercall that can write only to the arena. Returns `None` for an answer that no
/// DoubleDecker host gives.
pub(crate) fn hypercall(gpa: u64, more: [u64; 3]) -> Option<Outcome> {
    let arguments = [gpa, more[0], more[1], more[2]].map(|word| word as c_ulong);
    // SAFETY: For each request, frames to be filled are in the arena or are not memory
    // (`Draft::is_safe`).
    let raw = unsafe { dd_hypercall(NUMBER as c_ulong, arguments.as_ptr()) };
    Outcome::from_raw(raw as u64)
}

/// Adds to a counter.
pub(crate) fn tally(which: u32, amount: u64) {
    // SAFETY: Adds to a number of the module's, if there is one.
    unsafe { dd_tally_add(which, amount as c_ulong) };
}

/// Returns whether a worker must end, after letting other tasks run.
pub(crate) fn leaves() -> bool {
    // SAFETY: Called by workers without locks.
    unsafe { dd_worker_must_end() }
}

/// The workers, one for each processor. They end when the value is dropped.
pub(crate) struct Workers(());

impl Workers {
    /// Starts the workers.
    pub(crate) fn start() -> Result<Self> {
        // SAFETY: Called once, from module init.
        kernel::error::to_result(unsafe { dd_workers_start() })?;
        Ok(Self(()))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // SAFETY: Started by construction. Waits for all of them.
        unsafe { dd_workers_stop() };
    }
}

/// Called by workers.c in each worker.
#[no_mangle]
extern "C" fn dd_hostile_work(worker: c_uint) {
    crate::worker::work(worker);
}
