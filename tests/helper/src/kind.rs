// SPDX-License-Identifier: GPL-2.0-only

//! Operations that a torture counts separately, because only some filesystems offer them. A
//! scenario names those that must have succeeded.

use serde::{Deserialize, Serialize};

/// An operation that changes content, extents, generation or flags of a file.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Buffered writes by io_uring.
    Ring,
    /// Direct writes by io_uring, several at a time.
    RingDirect,
    /// Buffered writes by io_submit.
    Aio,
    /// Direct writes by io_submit, several at a time.
    AioDirect,
    /// A write, and a read, with `RWF_DONTCACHE`.
    Uncached,
    /// A write with `RWF_ATOMIC`.
    Atomic,
    /// Writes to a loop device that does direct I/O to the file.
    Loop,
    /// Journalling of the file's data is switched on or off.
    Journal,
    /// The file gets a generation that a user chose.
    Generation,
    /// The file becomes a verity file, which cannot be changed any more.
    Verity,
    /// The file and the boot loader's inode swap their content.
    Boot,
    /// The kernel swaps to the file for a moment.
    Swap,
    /// Two files exchange ranges.
    Exchange,
    /// Two files exchange ranges if the second one has not changed.
    Commit,
    /// Two files of one length swap their extents.
    SwapExtents,
    /// Two files swap extents by the ioctl of defragmentation.
    MoveExtents,
    /// Two files share a range because its bytes are the same.
    Dedupe,
    /// A file shares the blocks of a range of another one.
    CloneRange,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 18] = [
        Self::Ring,
        Self::RingDirect,
        Self::Aio,
        Self::AioDirect,
        Self::Uncached,
        Self::Atomic,
        Self::Loop,
        Self::Journal,
        Self::Generation,
        Self::Verity,
        Self::Boot,
        Self::Swap,
        Self::Exchange,
        Self::Commit,
        Self::SwapExtents,
        Self::MoveExtents,
        Self::Dedupe,
        Self::CloneRange,
    ];

    /// Returns whether it needs a second file.
    #[must_use]
    pub const fn takes_two(self) -> bool {
        matches!(
            self,
            Self::Exchange
                | Self::Commit
                | Self::SwapExtents
                | Self::MoveExtents
                | Self::Dedupe
                | Self::CloneRange
        )
    }
}
