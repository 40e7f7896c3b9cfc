// SPDX-License-Identifier: GPL-2.0-only

//! Counters of a shard.

use super::shard::Shard;

/// The content of a shard.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Number of files with at least one page that is not absent.
    pub files: u32,
    /// Number of chunks with at least one page that is not absent.
    pub chunks: u32,
    /// Number of slots for files, including free ones.
    pub file_slots: u32,
    /// Number of slots for chunks, including free ones.
    pub chunk_slots: u32,
    /// Number of pages that are present.
    pub present: u64,
    /// Number of pages that are leaving or cancelled.
    pub going: u64,
    /// Number of present pages that [`Shard::reclaim`] has dropped since the shard was created.
    pub dropped: u64,
}

/// Kinds of slots of which few are free, so that the caller should provide new ones or reclaim
/// some.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LowSlots {
    /// Few slots for files are free.
    pub files: bool,
    /// Few slots for chunks are free.
    pub chunks: bool,
}

impl LowSlots {
    /// Returns whether few slots of any kind are free.
    pub const fn any(self) -> bool {
        self.files || self.chunks
    }
}

/// Number of free slots below which a table is low, however small it is. They suffice for a few of
/// the largest folios.
const RESERVE: u32 = 32;

impl<F, C> Shard<F, C> {
    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        Counters {
            files: self.files.used(),
            chunks: self.chunks.used(),
            file_slots: self.files.adopted(),
            chunk_slots: self.chunks.adopted(),
            present: self.present,
            going: self.going,
            dropped: self.dropped,
        }
    }

    /// Returns the kinds of slots of which less than an eighth is free, or fewer than some large
    /// puts need.
    pub fn low(&self) -> LowSlots {
        let low = |spare: u32, adopted: u32| spare < RESERVE.max(adopted / 8);
        LowSlots {
            files: low(self.files.spare(), self.files.adopted()),
            chunks: low(self.chunks.spare(), self.chunks.adopted()),
        }
    }
}
