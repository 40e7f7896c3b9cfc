// SPDX-License-Identifier: GPL-2.0

//! The index of one shard of one VM: which page of which file is kept where.
//!
//! Every kept page has a slot. A slot is on three lists at once: the chain of its hash bucket
//! (found by key), the FIFO of its pool (found by age) and the ring of its file (found by file).
//! Links are slot numbers. All memory comes from the caller in [`Segment`]s, and [`List`]s, one
//! a pool; the store neither locks nor allocates, and never looks behind the handle of a page.
//!
//! Handles come in through [`Store::insert`] and leave exactly once: through the return value of
//! the operation that removed the page. The caller frees what they stand for.
//!
//! - [`slot`]: a slot in 56 bytes, a segment of 67;
//! - [`fifo`]: the order and the counters of a pool;
//! - [`bucket`]: the hash table, which grows and shrinks by one bucket at a time;
//! - [`file`]: the rings of the files;
//! - [`hash`]: where a key belongs.

pub mod bucket;
pub mod fifo;
pub mod file;
pub mod hash;
pub mod slot;
#[cfg(test)]
mod tests;
mod walk;

pub use fifo::{List, Reason};
pub use hash::Hasher;
pub use slot::{Segment, MAX_HANDLE, MAX_POOL, SEGMENT_SLOTS};
pub use walk::{Cursor, Walk};

use ddabi::key::PageKey;

/// No slot. Slot 0 is never used, so that zeroed memory is an empty segment.
pub(crate) const NONE: u32 = 0;

/// Bounds slot numbers, so that the arithmetic of buckets stays within 32 bits: 128 GiB of index.
const MAX_SLOTS: usize = 1 << 31;

/// Unused slots that a store may always have, beside one for [`SLACK_SHARE`] used ones.
const SLACK: u32 = 64;

/// Makes six per cent.
const SLACK_SHARE: u32 = 16;

/// The memory of a store, supplied by the caller.
///
/// The caller may append segments and lists at any time, and remove segments from the end as far
/// as [`Store::trim`] allows; it changes nothing inside them.
pub trait Storage {
    /// Number of segments.
    fn segments(&self) -> usize;
    /// The segment with this number, which is below [`Storage::segments`].
    fn segment(&self, number: usize) -> &Segment;
    /// The segment with this number, which is below [`Storage::segments`].
    fn segment_mut(&mut self, number: usize) -> &mut Segment;
    /// The lists of the pools, by pool number.
    fn lists(&self) -> &[List];
    /// The lists of the pools, by pool number.
    fn lists_mut(&mut self) -> &mut [List];
}

/// A page to be kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Its owner; the caller has supplied this pool's list.
    pub pool: u16,
    /// What the caller knows the page by, at most [`MAX_HANDLE`].
    pub handle: u64,
    /// When it came, in any unit that only rises (and may wrap).
    pub stamp: u32,
}

/// A page that is no longer kept. Only a store makes one, and only one for each page.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "what the handle stands for must be freed"]
pub struct Removed {
    key: PageKey,
    pool: u16,
    handle: u64,
}

impl Removed {
    /// Its name.
    pub const fn key(&self) -> &PageKey {
        &self.key
    }

    /// Its owner.
    pub const fn pool(&self) -> u16 {
        self.pool
    }

    /// What the caller knows the page by.
    pub const fn into_handle(self) -> u64 {
        self.handle
    }
}

/// The outcome of [`Store::insert`].
#[derive(Debug, Eq, PartialEq)]
#[must_use = "the handle of the replaced page, or of the refused one, must be freed"]
pub struct Inserted {
    /// The older copy, which is gone in any case.
    pub replaced: Option<Removed>,
    /// Whether the page is kept now. It is not if there was no [`Store::room`] or no such pool.
    pub stored: bool,
}

/// The index of one shard.
#[derive(Debug)]
pub struct Store<S> {
    storage: S,
    hasher: Hasher,
    /// Slots below this number have been used; there are as many buckets. Slot 0 is never free.
    high: u32,
    /// Slots that hold a page.
    used: u32,
    /// First free slot below `high`.
    free: u32,
}

impl<S: Storage> Store<S> {
    /// An empty store on zeroed storage.
    pub const fn new(storage: S, hasher: Hasher) -> Self {
        Self {
            storage,
            hasher,
            high: 1,
            used: 0,
            free: NONE,
        }
    }

    /// The storage, to be read.
    pub const fn storage(&self) -> &S {
        &self.storage
    }

    /// The storage, to be extended or cut as [`Storage`] says.
    pub fn storage_mut(&mut self) -> &mut S {
        &mut self.storage
    }

    /// Pages kept.
    pub const fn used(&self) -> u32 {
        self.used
    }

    /// Pages that can be inserted before more segments are needed.
    pub fn room(&self) -> usize {
        self.slots().saturating_sub(1 + self.used as usize)
    }

    /// Keeps a page. An older copy is removed first and counts as flushed.
    pub fn insert(&mut self, key: &PageKey, entry: Entry) -> Inserted {
        let replaced = self.remove(key, Reason::Flush);
        let known = usize::from(entry.pool) < self.storage.lists().len();
        let valid = known && entry.handle <= MAX_HANDLE && key.index <= ddabi::key::MAX_INDEX;
        let slot = if valid { self.allocate() } else { NONE };
        if slot != NONE {
            self.slot_mut(slot).fill(key, &entry);
            self.link_bucket(slot);
            self.link_file(slot);
            self.push_newest(slot);
            self.list_mut(entry.pool).puts += 1;
            self.used += 1;
        }
        Inserted {
            replaced,
            stored: slot != NONE,
        }
    }

    /// The owner of a page, if the page is kept.
    pub fn pool_of(&self, key: &PageKey) -> Option<u16> {
        match self.find(key) {
            NONE => None,
            slot => Some(self.slot(slot).pool()),
        }
    }

    /// Removes a page.
    pub fn remove(&mut self, key: &PageKey, reason: Reason) -> Option<Removed> {
        match self.find(key) {
            NONE => None,
            slot => Some(self.remove_slot(slot, reason)),
        }
    }

    /// Removes the oldest page of a pool.
    pub fn remove_oldest(&mut self, pool: u16, reason: Reason) -> Option<Removed> {
        match self.storage.lists().get(usize::from(pool))?.oldest {
            NONE => None,
            slot => Some(self.remove_slot(slot, reason)),
        }
    }

    /// When the oldest page of a pool came.
    pub fn oldest_stamp(&self, pool: u16) -> Option<u32> {
        match self.storage.lists().get(usize::from(pool))?.oldest {
            NONE => None,
            slot => Some(self.slot(slot).stamp),
        }
    }

    /// Whether [`Store::trim`] would find something to do.
    pub const fn is_slack(&self) -> bool {
        let unused = self.high - 1 - self.used;
        if self.used > 0 {
            unused > SLACK + self.used / SLACK_SHARE
        } else {
            unused > 0
        }
    }

    /// Lets up to `steps` unused slots at the end go, and says how many segments are needed. The
    /// caller may free the others; they are as zeroed as they came.
    ///
    /// Some slack stays, so that a store of steady size does not move its pages about.
    pub fn trim(&mut self, steps: u32) -> usize {
        for _ in 0..steps {
            if !self.is_slack() {
                break;
            }
            self.drop_highest();
        }
        if self.high == 1 {
            0
        } else {
            (self.high as usize).div_ceil(SEGMENT_SLOTS)
        }
    }

    fn slots(&self) -> usize {
        (self.storage.segments() * SEGMENT_SLOTS).min(MAX_SLOTS)
    }

    fn remove_slot(&mut self, slot: u32, reason: Reason) -> Removed {
        let removed = self.slot(slot).removed();
        self.unlink_bucket(slot);
        self.unlink_file(slot);
        self.unlink_fifo(slot);
        self.list_mut(removed.pool).count(reason, 1);
        self.used -= 1;
        self.release(slot);
        removed
    }

    /// A slot below `high`: a free one, or the next one together with its bucket.
    fn allocate(&mut self) -> u32 {
        let slot = self.free;
        if slot != NONE {
            self.unlink_free(slot);
            return slot;
        }
        if self.high as usize >= self.slots() {
            return NONE;
        }
        let slot = self.high;
        self.add_buckets();
        slot
    }

    fn release(&mut self, slot: u32) {
        let next = self.free;
        self.slot_mut(slot).vacate(next);
        if next != NONE {
            self.slot_mut(next).older = slot;
        }
        self.free = slot;
    }

    fn unlink_free(&mut self, slot: u32) {
        let (before, after) = (self.slot(slot).older, self.slot(slot).newer);
        match before {
            NONE => self.free = after,
            before => self.slot_mut(before).newer = after,
        }
        if after != NONE {
            self.slot_mut(after).older = before;
        }
    }

    /// Takes the highest slot out of use: its page moves to a free slot, its bucket to another.
    fn drop_highest(&mut self) {
        let highest = self.high - 1;
        if self.slot(highest).is_used() {
            let target = self.free;
            self.unlink_free(target);
            self.relocate(highest, target);
        } else {
            self.unlink_free(highest);
        }
        *self.slot_mut(highest) = slot::Slot::default();
        self.drop_buckets();
    }

    fn relocate(&mut self, from: u32, to: u32) {
        *self.slot_mut(to) = *self.slot(from);
        self.redirect_bucket(from, to);
        self.redirect_file(from, to);
        self.redirect_fifo(from, to);
    }

    fn slot(&self, slot: u32) -> &slot::Slot {
        let (segment, at) = slot::place(slot);
        &self.storage.segment(segment).slots[at]
    }

    fn slot_mut(&mut self, slot: u32) -> &mut slot::Slot {
        let (segment, at) = slot::place(slot);
        &mut self.storage.segment_mut(segment).slots[at]
    }
}
