// SPDX-License-Identifier: GPL-2.0

//! The map of one part of the key space: its tables, and how their entries hang together.

use super::bits::{Bits, State};
use super::chunk::{ChunkSlot, CHUNK_PAGES};
use super::file::FileSlot;
use super::seed::Seed;
use super::slots::{Link, Slots};
use super::table::Table;
use ddabi::key::{FileKey, MAX_INDEX};

/// The presence map of some files.
///
/// `F` and `C` hold the slots of files and of chunks. With as many slots of files as of chunks
/// it is never short of files, since every file has a chunk.
pub struct Shard<F, C> {
    pub(super) files: Table<F>,
    pub(super) chunks: Table<C>,
    pub(super) present: u64,
    pub(super) going: u64,
    pub(super) dropped: u64,
    /// Files whose inode got another generation.
    pub(super) outdated: u32,
    /// Slot the clock looks at next.
    pub(super) hand: u32,
}

/// States of a chunk before and after an event.
pub(super) struct Change {
    pub(super) before: Bits,
    pub(super) after: Bits,
}

impl Change {
    /// Pages that are no longer present.
    pub(super) fn lost(&self) -> u64 {
        count(self.before.present() & !self.after.present())
    }

    /// Pages that became present.
    pub(super) fn gained(&self) -> u64 {
        count(self.after.present() & !self.before.present())
    }
}

/// Number of bits set.
pub(super) fn count(mask: u128) -> u64 {
    u64::from(mask.count_ones())
}

impl<F, C> Shard<F, C> {
    /// An empty map. The slots come into use by [`Shard::adopt`]; `seed` is random.
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

    /// The slots of files, to provide more of them; see [`Slots`] for what is allowed.
    pub fn file_slots_mut(&mut self) -> &mut F {
        self.files.slots_mut()
    }

    /// The slots of chunks, to provide more of them; see [`Slots`] for what is allowed.
    pub fn chunk_slots_mut(&mut self) -> &mut C {
        self.chunks.slots_mut()
    }
}

impl<F, C> Shard<F, C>
where
    F: Slots<Slot = FileSlot>,
    C: Slots<Slot = ChunkSlot>,
{
    /// Takes up to `most` newly provided slots of each kind into use, some dozens of
    /// nanoseconds each; whether all are.
    pub fn adopt(&mut self, most: u32) -> bool {
        let files = self.files.adopt(most);
        let chunks = self.chunks.adopt(most);
        files && chunks
    }

    /// State of one page.
    pub fn state(&self, file: &FileKey, index: u64) -> State {
        if index > MAX_INDEX {
            return State::Absent;
        }
        self.find_file(file)
            .and_then(|file| self.find_chunk(file, index / CHUNK_PAGES))
            .and_then(|slot| self.chunks.get(slot))
            .map_or(State::Absent, |chunk| chunk.bits.state(index % CHUNK_PAGES))
    }

    /// Slot of an inode, whatever generation of it the pages belong to.
    pub(super) fn find_inode(&self, key: &FileKey) -> Option<u32> {
        self.files
            .find(FileSlot::identity_of(key), |file| file.key.same_inode(key))
    }

    /// Slot of a file, if its pages belong to this very generation.
    pub(super) fn find_file(&self, key: &FileKey) -> Option<u32> {
        let is_it = |file: &FileSlot| file.key == *key && !file.outdated;
        self.find_inode(key)
            .filter(|slot| self.files.get(*slot).is_some_and(is_it))
    }

    /// Slot of a chunk of the file in slot `file`.
    pub(super) fn find_chunk(&self, file: u32, number: u64) -> Option<u32> {
        let file = Link::to(file);
        let identity = ChunkSlot::identity_of(file, number);
        self.chunks.find(identity, |chunk| {
            chunk.number == number && chunk.file == file
        })
    }

    /// Slots of the file and of a chunk, new ones if need be; `None` if there is no slot.
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

    /// Changes a chunk, counts what changed, and frees the chunk if it is empty now.
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
