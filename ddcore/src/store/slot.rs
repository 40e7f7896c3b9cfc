// SPDX-License-Identifier: GPL-2.0

//! A slot in 56 bytes, and the unit in which the caller supplies memory.

use super::{Entry, Removed, NONE};
use ddabi::key::{FileKey, PageKey};

/// Slots in a segment: as many as fit into a page of memory.
pub const SEGMENT_SLOTS: usize = 67;

/// Buckets of files in a segment: files have fewer heads than pages, for a file has many pages.
pub(super) const SEGMENT_FILES: usize = SEGMENT_SLOTS.div_ceil(4);

/// Largest handle: page frame numbers of 52-bit physical addresses fit.
pub const MAX_HANDLE: u64 = (1 << 40) - 1;

/// Largest pool number.
pub const MAX_POOL: u16 = POOL_MASK;

const POOL_MASK: u16 = (1 << 14) - 1;
const USED: u16 = 1 << 14;
const LEADER: u16 = 1 << 15;

/// What a store needs for 67 pages: a page of memory, 61 bytes for each.
#[derive(Debug)]
#[repr(C)]
pub struct Segment {
    pub(super) slots: [Slot; SEGMENT_SLOTS],
    pub(super) buckets: [u32; SEGMENT_SLOTS],
    pub(super) files: [u32; SEGMENT_FILES],
}

impl Segment {
    /// An empty segment. It is all zeroes, and zeroed memory of this size is an empty segment.
    pub const EMPTY: Self = Self {
        slots: [Slot::EMPTY; SEGMENT_SLOTS],
        buckets: [NONE; SEGMENT_SLOTS],
        files: [NONE; SEGMENT_FILES],
    };
}

/// Where a slot number lies: segment, and place inside it.
pub(super) const fn place(slot: u32) -> (usize, usize) {
    const SLOTS: u32 = SEGMENT_SLOTS as u32;
    ((slot / SLOTS) as usize, (slot % SLOTS) as usize)
}

/// There are two kinds:
///
/// | field | used | free |
/// |---|---|---|
/// | key, handle, stamp | of the page | stale |
/// | `flags` | pool, `USED`, perhaps `LEADER` | zero |
/// | `chain` | next in the bucket | zero |
/// | `older`, `newer` | neighbours in the pool's FIFO | neighbours in the list of free slots |
/// | `ring_before`, `ring_after` | neighbours in the file's ring | zero |
/// | `file_chain` | leader: next leader in the bucket of files | zero |
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Slot {
    inode: u64,
    filesystem: u32,
    generation: u32,
    index_low: u32,
    handle_low: u32,
    index_high: u8,
    handle_high: u8,
    flags: u16,
    pub(super) stamp: u32,
    pub(super) chain: u32,
    pub(super) older: u32,
    pub(super) newer: u32,
    pub(super) ring_before: u32,
    pub(super) ring_after: u32,
    pub(super) file_chain: u32,
}

const _: () = assert!(size_of::<Slot>() == 56);
const _: () = assert!(size_of::<Segment>() <= ddabi::PAGE_SIZE);

impl Slot {
    const EMPTY: Self = Self {
        inode: 0,
        filesystem: 0,
        generation: 0,
        index_low: 0,
        handle_low: 0,
        index_high: 0,
        handle_high: 0,
        flags: 0,
        stamp: 0,
        chain: NONE,
        older: NONE,
        newer: NONE,
        ring_before: NONE,
        ring_after: NONE,
        file_chain: NONE,
    };

    pub(super) fn fill(&mut self, key: &PageKey, entry: &Entry) {
        *self = Self {
            inode: key.file.inode,
            filesystem: key.file.filesystem,
            generation: key.file.generation,
            index_low: key.index as u32,
            index_high: (key.index >> 32) as u8,
            handle_low: entry.handle as u32,
            handle_high: (entry.handle >> 32) as u8,
            flags: entry.pool & POOL_MASK | USED,
            stamp: entry.stamp,
            ..Self::EMPTY
        };
    }

    pub(super) fn vacate(&mut self, next_free: u32) {
        *self = Self {
            newer: next_free,
            ..Self::EMPTY
        };
    }

    pub(super) const fn file(&self) -> FileKey {
        FileKey {
            inode: self.inode,
            filesystem: self.filesystem,
            generation: self.generation,
        }
    }

    pub(super) const fn index(&self) -> u64 {
        self.index_low as u64 | (self.index_high as u64) << 32
    }

    pub(super) const fn key(&self) -> PageKey {
        PageKey {
            file: self.file(),
            index: self.index(),
        }
    }

    pub(super) const fn removed(&self) -> Removed {
        Removed {
            key: self.key(),
            pool: self.pool(),
            handle: self.handle_low as u64 | (self.handle_high as u64) << 32,
        }
    }

    pub(super) const fn pool(&self) -> u16 {
        self.flags & POOL_MASK
    }

    pub(super) fn set_pool(&mut self, pool: u16) {
        self.flags = self.flags & !POOL_MASK | pool & POOL_MASK;
    }

    pub(super) const fn is_used(&self) -> bool {
        self.flags & USED != 0
    }

    /// Whether the slot stands for its file in the bucket of files.
    pub(super) const fn is_leader(&self) -> bool {
        self.flags & LEADER != 0
    }

    pub(super) fn set_leader(&mut self, leader: bool) {
        if leader {
            self.flags |= LEADER;
        } else {
            self.flags &= !LEADER;
        }
    }
}

const _: () = assert!(ddabi::pool::MAX_POOLS <= MAX_POOL as u32 + 1);
const _: () = assert!(ddabi::key::MAX_INDEX == (1 << 40) - 1);
