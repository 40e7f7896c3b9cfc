// SPDX-License-Identifier: GPL-2.0-only

//! The index of one shard of one VM: which page of which file is kept where.
//!
//! Pages of a file come and go with their neighbours, so what the index knows is a block: up to 16
//! pages of an aligned stretch of a file that have one owner. A block is found by key, in a bucket of
//! a hash table, and by age, in a cohort of the FIFO of its pool. The blocks of a file are looked up
//! between the first and the last index it had. The handle of a block's only page is in the block; more of them are
//! in a leaf, a cache line of its own. A page alone costs 48 bytes, one of a full block less than
//! 7; a file costs 40.
//!
//! What costs time is memory that is far away. Operations take a [`Batch`]: all keys are hashed
//! first, then everything the operation will touch is read once, one kind after the other, so that
//! the processor waits for many cache lines at a time; only then something is changed.
//!
//! Links are numbers. All memory comes from the caller: [`Segment`]s of each [`Kind`], and
//! [`List`]s, one a pool; the store neither locks nor allocates, and never looks behind the handle
//! of a page. Handles come in through [`Store::insert`] and leave exactly once: in a [`Removed`].
//! The caller frees what they stand for.
//!
//! What is called a pool here is one of the lists of a pool: there is one for each class.
//!
//! - [`batch`]: keys, hashed and sorted by shard; [`hash`]: where a key belongs;
//! - [`block`], [`file`], [`leaf`]: what is kept; [`bucket`]: how it is found, by hash tables that
//!   grow and shrink by one bucket at a time; [`cohort`], [`fifo`]: the order and the counters of a
//!   pool;
//! - [`insert`], [`remove`], [`walk`]: the operations;
//! - [`segment`], [`arena`], [`trim`]: memory, and giving it back; `heap`: memory outside kernels.

mod arena;
pub mod batch;
pub mod block;
mod bucket;
mod cohort;
mod fifo;
mod file;
pub mod hash;
#[cfg(any(test, feature = "heap"))]
mod heap;
mod insert;
mod leaf;
mod remove;
pub mod segment;
#[cfg(test)]
mod tests;
mod trim;
mod walk;

pub use batch::{Batch, Group, Part};
pub use block::{BLOCK_PAGES, MAX_HANDLE, MAX_POOL, STAMP_BITS};
pub use fifo::{List, Reason};
pub use hash::Hasher;
#[cfg(any(test, feature = "heap"))]
pub use heap::Heap;
pub use remove::Removed;
pub use segment::{Kind, Segment};
pub use walk::{Cursor, Walk};

use arena::Arena;
use ddabi::key::PageKey;

/// No block, no file, no leaf. Number 0 is never used, so that zeroed memory is an empty segment.
pub(crate) const NONE: u32 = 0;

/// The memory of a store, supplied by the caller.
///
/// The caller may append segments and lists at any time, and remove segments from the end as far
/// as [`Store::needed`] allows; it changes nothing inside them.
pub trait Storage {
    /// Number of segments of a kind.
    fn segments(&self, kind: Kind) -> usize;
    /// The segment of a kind with this number, which is below [`Storage::segments`].
    fn segment(&self, kind: Kind, number: usize) -> &Segment;
    /// The segment of a kind with this number, which is below [`Storage::segments`].
    fn segment_mut(&mut self, kind: Kind, number: usize) -> &mut Segment;
    /// The lists of the pools, by pool number.
    fn lists(&self) -> &[List];
    /// The lists of the pools, by pool number.
    fn lists_mut(&mut self) -> &mut [List];
}

/// The index of one shard.
#[derive(Debug)]
pub struct Store<S> {
    storage: S,
    hasher: Hasher,
    blocks: Arena,
    files: Arena,
    leaves: Arena,
    cohorts: Arena,
    /// Whether the last file is too large to be moved; until another one goes.
    files_stuck: bool,
    /// Pages in all blocks.
    pages: u64,
    /// Pieces that can be inserted for certain; perhaps more.
    room: u32,
}

impl<S: Storage> Store<S> {
    /// An empty store on zeroed storage.
    pub const fn new(storage: S, hasher: Hasher) -> Self {
        Self {
            storage,
            hasher,
            blocks: Arena::new(),
            files: Arena::new(),
            leaves: Arena::new(),
            cohorts: Arena::new(),
            files_stuck: false,
            pages: 0,
            room: 0,
        }
    }

    /// The storage, to be read.
    pub const fn storage(&self) -> &S {
        &self.storage
    }

    /// The storage, to be extended or cut as [`Storage`] says.
    pub fn storage_mut(&mut self) -> &mut S {
        self.room = 0;
        &mut self.storage
    }

    /// Pages kept.
    pub const fn used(&self) -> u64 {
        self.pages
    }

    /// The owner of a page, if the page is kept.
    pub fn pool_of(&self, key: &PageKey) -> Option<u16> {
        let part = Part::single(&self.hasher, key);
        let file = self.find_file(&part.file, part.file_hash);
        if file == NONE {
            return None;
        }
        let mut number = self.find_block(&part, file);
        while number != NONE {
            let block = self.block(number);
            if block.present() & part.mask != 0 {
                return Some(block.pool());
            }
            number = self.next_block(number, part.hash);
        }
        None
    }

    /// When the oldest pages of a pool came: the lower bits of their stamp.
    pub fn oldest_stamp(&self, pool: u16) -> Option<u64> {
        match self.oldest(pool) {
            NONE => None,
            number => Some(self.block(number).stamp()),
        }
    }

    /// When the newest pages of a pool came that are still there, as far as its blocks tell.
    pub fn newest_stamp(&self, pool: u16) -> Option<u64> {
        match self.newest(pool) {
            NONE => None,
            number => Some(self.block(number).stamp()),
        }
    }
}

/// How old a stamp is: by how much `now` is ahead of it. One that is newer came while we looked.
pub const fn age(now: u64, stamp: u64) -> u64 {
    const MASK: u64 = (1 << STAMP_BITS) - 1;
    let age = now.wrapping_sub(stamp) & MASK;
    if age > MASK / 2 {
        0
    } else {
        age
    }
}
