// SPDX-License-Identifier: GPL-2.0-only

//! Counts the bytes that a thread has allocated and not freed. Each test runs in a thread of its
//! own.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

/// Returns how many bytes this thread has allocated and not freed.
pub(crate) fn live() -> isize {
    LIVE.get()
}

fn count(bytes: isize) {
    // A thread can free memory after its thread-local variables were destroyed.
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: Every call is passed unchanged to the system's allocator. Counting does not allocate,
// because the counter is initialised at compile time and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: The caller fulfils the contract of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: As above; `memory` came from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}
