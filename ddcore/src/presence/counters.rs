// SPDX-License-Identifier: GPL-2.0-only

//! Counters of a shard.

use super::shard::Shard;

/// The content of a shard.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Files with at least one page that is not absent.
    pub files: u32,
    /// Chunks with at least one page that is not absent.
    pub chunks: u32,
    /// Slots for files, free ones included.
    pub file_slots: u32,
    /// Slots for chunks, free ones included.
    pub chunk_slots: u32,
    /// Pages that are present.
    pub present: u64,
    /// Pages that are leaving or cancelled.
    pub going: u64,
    /// Present pages dropped by [`Shard::reclaim`] since the shard was created.
    pub dropped: u64,
}

/// Kinds of slots that run out, so that the caller should provide new ones or reclaim.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Low {
    /// Slots for files.
    pub files: bool,
    /// Slots for chunks.
    pub chunks: bool,
}

impl Low {
    /// Returns whether any kind of slot runs out.
    pub const fn any(self) -> bool {
        self.files || self.chunks
    }
}

/// Free slots below which a table is low, however small it is: a few of the largest folios.
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

    /// Returns the kinds of slots that run out: less than an eighth of them is free, or less than
    /// some large puts need.
    pub fn low(&self) -> Low {
        let low = |spare: u32, adopted: u32| spare < RESERVE.max(adopted / 8);
        Low {
            files: low(self.files.spare(), self.files.adopted()),
            chunks: low(self.chunks.spare(), self.chunks.adopted()),
        }
    }
}
