// SPDX-License-Identifier: GPL-2.0-only

//! Counts the bytes that a thread has allocated and not freed: tests run in threads of their own.

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
    // A thread that ends frees more after its counter is gone.
    let _ = LIVE.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: Every call goes to the system's allocator as it is; counting allocates nothing, for the
// counter is initialised at compile time and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: The caller keeps the promises that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: As above; `memory` came from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}
