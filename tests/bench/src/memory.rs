// SPDX-License-Identifier: GPL-2.0-only

//! How much memory the process has allocated.

/// Bytes that were allocated and not freed, with what the allocator adds to each piece.
pub(crate) fn allocated() -> u64 {
    // SAFETY: The call only reads the allocator's own counts, under its locks.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as u64
}
