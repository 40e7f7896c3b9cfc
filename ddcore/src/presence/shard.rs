// SPDX-License-Identifier: GPL-2.0-only

//! The map of one part of the key space: its tables, and the links between their entries.

use super::bits::{Bits, State};
use super::chunk::{ChunkSlot, CHUNK_PAGES};
use super::file::FileSlot;
use super::seed::Seed;
use super::slots::{Link, Slots};
use super::table::Table;
use ddabi::key::{FileKey, MAX_INDEX};

/// The presence map of some files.
///
/// `F` and `C` are memory for the slots of files and of chunks. If there are as many slots of files
/// as of chunks, slots of files never run out first, because every file has at least one chunk.
pub struct Shard<F, C> {
    pub(super) files: Table<F>,
    pub(super) chunks: Table<C>,
    pub(super) present: u64,
    pub(super) going: u64,
    pub(super) dropped: u64,
    /// Number of files whose inode got another generation.
    pub(super) outdated: u32,
    /// The slot that the clock examines next.
    pub(super) hand: u32,
}

/// States of a chunk before and after an event.
pub(super) struct Change {
    pub(super) before: Bits,
    pub(super) after: Bits,
}

impl Change {
    /// Returns the number of pages that are no longer present.
    pub(super) fn lost(&self) -> u64 {
        count(self.before.present() & !self.after.present())
    }

    /// Returns the number of pages that became present.
    pub(super) fn gained(&self) -> u64 {
        count(self.after.present() & !self.before.present())
    }
}

/// Returns the number of bits set.
pub(super) fn count(mask: u128) -> u64 {
    u64::from(mask.count_ones())
}

impl<F, C> Shard<F, C> {
    /// Creates an empty map. [`Shard::adopt`] takes its slots into use; `seed` must be random.
    pub const fn new(files: F, chunks: C, seed: Seed) -> Self {
        Self {
            files: Table::new(files, seed),
            chunks: Table::new(chunks, seed),
            present: 0,
            going: 0,
            dropped: 0,
            outdated: 0,
            hand: 0,
        }
    }

    /// Returns the slots of files, for providing more of them under the rules of [`Slots`].
    pub fn file_slots_mut(&mut self) -> &mut F {
        self.files.slots_mut()
    }

    /// Returns the slots of chunks, for providing more of them under the rules of [`Slots`].
    pub fn chunk_slots_mut(&mut self) -> &mut C {
        self.chunks.slots_mut()
    }
}

impl<F, C> Shard<F, C>
where
    F: Slots<Slot = FileSlot>,
    C: Slots<Slot = ChunkSlot>,
{
    /// Takes up to `max_entries` newly provided slots of each kind into use, which takes some
    /// dozens of nanoseconds for each. Returns whether all slots are in use.
    pub fn adopt(&mut self, max_entries: u32) -> bool {
        let files = self.files.adopt(max_entries);
        let chunks = self.chunks.adopt(max_entries);
        files && chunks
    }

    /// Returns the state of one page.
    pub fn state(&self, file: &FileKey, index: u64) -> State {
        if index > MAX_INDEX {
            return State::Absent;
        }
        self.find_file(file)
            .and_then(|file| self.find_chunk(file, index / CHUNK_PAGES))
            .and_then(|slot| self.chunks.get(slot))
            .map_or(State::Absent, |chunk| chunk.bits.state(index % CHUNK_PAGES))
    }

    /// Returns the slot of an inode with pages of any generation.
    pub(super) fn find_inode(&self, key: &FileKey) -> Option<u32> {
        self.files
            .find(FileSlot::identity_of(key), |file| file.key.same_inode(key))
    }

    /// Returns the slot of a file, if its pages are of this generation.
    pub(super) fn find_file(&self, key: &FileKey) -> Option<u32> {
        let is_it = |file: &FileSlot| file.key == *key && !file.outdated;
        self.find_inode(key)
            .filter(|slot| self.files.get(*slot).is_some_and(is_it))
    }

    /// Returns the slot of a chunk of the file in slot `file`.
    pub(super) fn find_chunk(&self, file: u32, number: u64) -> Option<u32> {
        let file = Link::to(file);
        let identity = ChunkSlot::identity_of(file, number);
        self.chunks.find(identity, |chunk| {
            chunk.number == number && chunk.file == file
        })
    }

    /// Returns the slot of a chunk of a file, and takes new slots for both if necessary. Returns
    /// `None` if no slot is free.
    pub(super) fn obtain(&mut self, key: &FileKey, number: u64) -> Option<u32> {
        let owner = match self.find_file(key) {
            Some(owner) => owner,
            None => self.files.insert(|file| file.key = *key)?,
        };
        if let Some(slot) = self.find_chunk(owner, number) {
            return Some(slot);
        }
        let file = self.files.get_mut(owner)?;
        let after = file.first;
        let inserted = self.chunks.insert(|chunk| {
            chunk.number = number;
            chunk.file = Link::to(owner);
            chunk.after = after;
        });
        let Some(slot) = inserted else {
            if file.chunks == 0 {
                self.files.remove(owner);
            }
            return None;
        };
        file.first = Link::to(slot);
        file.chunks = file.chunks.saturating_add(1);
        if let Some(next) = after.slot().and_then(|slot| self.chunks.get_mut(slot)) {
            next.before = Link::to(slot);
        }
        Some(slot)
    }

    /// Changes a chunk, updates the counters, and frees the chunk if it is empty afterwards.
    pub(super) fn change(&mut self, slot: u32, event: impl FnOnce(&mut Bits)) -> Change {
        let Some(chunk) = self.chunks.get_mut(slot) else {
            return Change {
                before: Bits::EMPTY,
                after: Bits::EMPTY,
            };
        };
        let before = chunk.bits;
        event(&mut chunk.bits);
        let after = chunk.bits;
        let change = Change { before, after };
        self.present = self
            .present
            .saturating_add(change.gained())
            .saturating_sub(change.lost());
        self.going = self
            .going
            .saturating_add(count(after.going() & !before.going()))
            .saturating_sub(count(before.going() & !after.going()));
        if after.is_empty() {
            self.release(slot);
        }
        change
    }

    /// Frees an empty chunk, and its file if it was the last.
    fn release(&mut self, slot: u32) {
        let Some(chunk) = self.chunks.get(slot) else {
            return;
        };
        let (owner, before, after) = (chunk.file, chunk.before, chunk.after);
        self.chunks.remove(slot);
        if let Some(next) = after.slot().and_then(|slot| self.chunks.get_mut(slot)) {
            next.before = before;
        }
        if let Some(previous) = before.slot().and_then(|slot| self.chunks.get_mut(slot)) {
            previous.after = after;
        }
        let Some(owner) = owner.slot() else {
            return;
        };
        let Some(file) = self.files.get_mut(owner) else {
            return;
        };
        if before == Link::NONE {
            file.first = after;
        }
        file.chunks = file.chunks.saturating_sub(1);
        if file.chunks == 0 {
            self.outdated = self.outdated.saturating_sub(u32::from(file.outdated));
            self.files.remove(owner);
        }
    }
}
