// SPDX-License-Identifier: GPL-2.0-only

//! Memory that the process has allocated.

/// Returns the number of bytes that were allocated and not freed, including the allocator's
/// overhead.
pub(crate) fn allocated() -> u64 {
    // SAFETY: The call only reads the allocator's own counts, under its locks.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as u64
}
