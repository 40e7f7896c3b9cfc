// SPDX-License-Identifier: GPL-2.0-only

//! The index of one shard of a VM, which maps pages of files to their handles.
//!
//! Adjacent pages of a file are mostly put and read together. The unit of the index is therefore a
//! block: up to 16 pages of an aligned range of a file that are in one list. A block is found by
//! its key, in a bucket of a hash table, and by its age, in a cohort of its list. The blocks of a
//! file are found by looking up all indices between the lowest and the highest one that any of its
//! blocks has had. A block that has one page contains its handle; the handles of a larger block are
//! in a leaf, a separate cache line. A page that is alone in its block takes 43 to 50 bytes
//! (measured in `docs/developers/decisions/0016-single-pages.md`), and each page of a full block
//! less than 8; a file takes 40.
//!
//! Cache misses take most of the time of an operation. Operations therefore take a [`Batch`]: all
//! keys are hashed first; then all memory that the operation will access is read, one kind of item
//! after the other, so that the processor waits for many cache lines at a time; then the index is
//! changed.
//!
//! Links are numbers of items. The caller provides all memory: [`Segment`]s of each [`Kind`], and
//! [`List`]s. A pool has a list for each class. The index neither locks nor allocates, and does not
//! interpret handles. A handle enters by [`Index::insert`] and leaves exactly once, in a
//! [`Removed`]; the caller then frees the page.
//!
//! - [`batch`]: keys, hashed and sorted by shard; [`hash`]: the shard and the bucket of a key;
//! - [`block`], [`file`], [`leaf`]: the items; [`bucket`], [`spill`], [`file_bucket`]: hash tables,
//!   which grow and shrink by one bucket at a time as computed by [`spread`]; [`cohort`], [`fifo`]:
//!   the order and the counters of a list;
//! - [`insert`], [`remove`], [`walk`], [`relocate`]: the operations;
//! - [`segment`], [`arena`], [`trim`]: memory and its release; `heap`: memory outside of kernels.

mod arena;
pub mod batch;
pub mod block;
mod bucket;
mod cohort;
mod fifo;
mod file;
mod file_bucket;
pub mod hash;
#[cfg(any(test, feature = "heap"))]
mod heap;
mod insert;
mod leaf;
mod relocate;
mod remove;
pub mod segment;
mod spill;
mod spread;
#[cfg(test)]
mod tests;
mod trim;
mod walk;

pub use batch::{Batch, Group, Part};
pub use block::{BLOCK_PAGES, MAX_HANDLE, MAX_LIST, PLACED};
pub use cohort::STAMP_BITS;
pub use fifo::{List, Reason};
pub use hash::Hasher;
#[cfg(any(test, feature = "heap"))]
pub use heap::Heap;
pub use relocate::{End, Held, Stretch};
pub use remove::Removed;
pub use segment::{Kind, Segment};
pub use walk::{Cursor, Walk};

use arena::Arena;
use bucket::Blocks;
use ddabi::key::PageKey;

/// The null link. Item number 0 is never used, so that zeroed memory is an empty segment.
pub(crate) const NONE: u32 = 0;

/// The memory of an index, provided by the caller.
///
/// The caller may append segments and lists at any time, and remove segments from the end down to
/// [`Index::needed`]. It must not change their content.
pub trait Storage {
    /// Returns the number of segments of a kind.
    fn segments(&self, kind: Kind) -> usize;
    /// Returns a segment of a kind. `number` is below [`Storage::segments`].
    fn segment(&self, kind: Kind, number: usize) -> &Segment;
    /// Returns a segment of a kind for changes. `number` is below [`Storage::segments`].
    fn segment_mut(&mut self, kind: Kind, number: usize) -> &mut Segment;
    /// Returns the lists, by number.
    fn lists(&self) -> &[List];
    /// Returns the lists for changes, by number.
    fn lists_mut(&mut self) -> &mut [List];
}

/// The index of one shard.
#[derive(Debug)]
pub struct Index<S> {
    storage: S,
    hasher: Hasher,
    blocks: Blocks,
    spills: Arena,
    files: Arena,
    leaves: Arena,
    cohorts: Arena,
    /// Whether the file with the highest number is too large to be moved. Cleared when a file is
    /// removed.
    files_stuck: bool,
    /// Number of pages in all blocks.
    pages: u64,
    /// Number of pieces that can certainly be inserted without examining the storage again.
    room: u32,
}

impl<S: Storage> Index<S> {
    /// Creates an empty index on zeroed storage.
    pub const fn new(storage: S, hasher: Hasher) -> Self {
        Self {
            storage,
            hasher,
            blocks: Blocks::new(),
            spills: Arena::new(),
            files: Arena::new(),
            leaves: Arena::new(),
            cohorts: Arena::new(),
            files_stuck: false,
            pages: 0,
            room: 0,
        }
    }

    /// Returns the storage.
    pub const fn storage(&self) -> &S {
        &self.storage
    }

    /// Returns the storage, which may be extended or truncated as described for [`Storage`].
    pub fn storage_mut(&mut self) -> &mut S {
        self.room = 0;
        &mut self.storage
    }

    /// Returns the number of pages in the index.
    pub const fn used(&self) -> u64 {
        self.pages
    }

    /// Returns the list of a page, or `None` if the page is not in the index.
    pub fn list_of(&self, key: &PageKey) -> Option<u16> {
        let part = Part::single(&self.hasher, key);
        let file = self.find_file(&part.file, part.file_hash);
        if file == NONE {
            return None;
        }
        let mut number = self.find_block(&part, file);
        while number != NONE {
            let block = self.block(number);
            if block.present() & part.mask != 0 {
                return Some(self.list_of_block(block));
            }
            number = self.next_block(number);
        }
        None
    }
}

/// Returns the age of a stamp, which is the time from the stamp to `now`. A stamp that is newer
/// than `now` has age 0, because its page was put after `now` was read.
pub const fn age(now: u64, stamp: u64) -> u64 {
    const MASK: u64 = (1 << STAMP_BITS) - 1;
    let age = now.wrapping_sub(stamp) & MASK;
    if age > MASK / 2 {
        0
    } else {
        age
    }
}
