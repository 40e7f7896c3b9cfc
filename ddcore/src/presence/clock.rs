// SPDX-License-Identifier: GPL-2.0-only

//! Choice of the chunks to drop when there is no room, by the clock algorithm.

use super::bits::Bits;
use super::chunk::{ChunkSlot, CHUNK_PAGES};
use super::file::FileSlot;
use super::shard::Shard;
use super::slots::Slots;
use ddabi::key::FileKey;

/// Number of slots that are examined for each requested chunk.
const LOOKS: u32 = 8;

/// Result of [`Shard::reclaim`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Reclaimed {
    /// Number of dropped chunks.
    pub chunks: u32,
    /// Number of present pages in them.
    pub pages: u64,
}

impl<F, C> Shard<F, C>
where
    F: Slots<Slot = FileSlot>,
    C: Slots<Slot = ChunkSlot>,
{
    /// Makes room by dropping up to `max_chunks` chunks in which no put began since the clock's
    /// hand last passed. Chunks with leaving or cancelled pages stay.
    ///
    /// Examines at most eight slots for each requested chunk, and may thus drop fewer chunks, or
    /// none; the next call continues from there. `dropped` is called with the file and the first
    /// and last page of each dropped chunk. Copies of these pages at the host can no longer be
    /// used.
    pub fn reclaim(
        &mut self,
        max_chunks: u32,
        mut dropped: impl FnMut(FileKey, u64, u64),
    ) -> Reclaimed {
        let mut reclaimed = Reclaimed::default();
        for _ in 0..max_chunks
            .saturating_mul(LOOKS)
            .min(self.chunks.adopted().saturating_mul(2))
        {
            if reclaimed.chunks == max_chunks {
                break;
            }
            let slot = if self.hand < self.chunks.adopted() {
                self.hand
            } else {
                0
            };
            self.hand = slot.saturating_add(1);
            let Some(chunk) = self.chunks.get_mut(slot) else {
                break;
            };
            let first = chunk.number.saturating_mul(CHUNK_PAGES);
            let Some(owner) = chunk.file.slot() else {
                continue;
            };
            if core::mem::take(&mut chunk.recent) || chunk.bits.going() != 0 {
                continue;
            }
            let key = self.files.get(owner).map(|file| file.key);
            let all = |bits: &mut Bits| bits.invalidate(u128::MAX);
            let pages = self.change(slot, all).lost();
            reclaimed.chunks = reclaimed.chunks.saturating_add(1);
            reclaimed.pages = reclaimed.pages.saturating_add(pages);
            self.dropped = self.dropped.saturating_add(pages);
            if let Some(key) = key {
                dropped(key, first, first.saturating_add(CHUNK_PAGES - 1));
            }
        }
        reclaimed
    }
}
