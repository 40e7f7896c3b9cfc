// SPDX-License-Identifier: GPL-2.0-only

//! A part of a session's index with its own lock, and the memory of that part.

use crate::counters::totals;
use crate::memory::without_waiting;
use crate::state::host;
use crate::vm::charge::charged;
use ddabi::PAGE_SIZE;
use ddcore::index::{Hasher, Index, Kind, List, Segment, Storage};
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, SpinLock};

/// Maximum number of places that an operation takes out of use, which bounds the time for which it
/// holds the lock.
const TRIM_STEPS: u32 = 128;

/// Maximum number of segments that an operation frees.
const TRIM_SEGMENTS: usize = 8;

/// A segment of the index in its own page of memory.
#[repr(transparent)]
struct Block(Segment);

// SAFETY: A segment is all integers; all zeroes is an empty one.
unsafe impl Zeroable for Block {}

type Directory = KVVec<KBox<Block>>;

/// The memory of a shard's index.
pub(crate) struct Memory {
    segments: [Directory; Kind::ALL.len()],
    lists: KVVec<List>,
}

impl Storage for Memory {
    #[inline]
    fn segments(&self, kind: Kind) -> usize {
        self.segments[kind as usize].len()
    }

    #[inline]
    fn segment(&self, kind: Kind, number: usize) -> &Segment {
        &self.segments[kind as usize][number].0
    }

    #[inline]
    fn segment_mut(&mut self, kind: Kind, number: usize) -> &mut Segment {
        &mut self.segments[kind as usize][number].0
    }

    #[inline]
    fn lists(&self) -> &[List] {
        &self.lists
    }

    #[inline]
    fn lists_mut(&mut self) -> &mut [List] {
        &mut self.lists
    }
}

/// A shard.
#[pin_data]
pub(crate) struct Shard {
    #[pin]
    index: SpinLock<Index<Memory>>,
}

impl Shard {
    pub(crate) fn new(hasher: Hasher) -> impl PinInit<Self, Error> {
        let memory = Memory {
            segments: [const { KVVec::new() }; Kind::ALL.len()],
            lists: KVVec::new(),
        };
        try_pin_init!(Self {
            index <- new_spinlock!(Index::new(memory, hasher), "Shard::index"),
        })
    }

    /// Calls `work` with the index. Memory that the index no longer needs is freed.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Index<Memory>) -> R) -> R {
        let mut trimmed = [const { None }; TRIM_SEGMENTS];
        let mut count = 0;
        let mut index = self.index.lock();
        let result = work(&mut index);
        if index.is_slack() {
            index.trim(TRIM_STEPS);
            for kind in Kind::ALL {
                let needed = index.needed(kind);
                let segments = &mut index.storage_mut().segments[kind as usize];
                while segments.len() > needed && count < TRIM_SEGMENTS {
                    trimmed[count] = segments.pop();
                    count += 1;
                }
            }
        }
        drop(index);
        if count > 0 {
            totals().index_bytes.subtract((count * PAGE_SIZE) as u64);
            note_index();
        }
        result
    }

    /// Calls `work` with the index after allocating memory for `parts` more parts.
    pub(crate) fn with_room<R>(
        &self,
        parts: usize,
        work: impl FnOnce(&mut Index<Memory>) -> R,
    ) -> Result<R, AllocError> {
        let mut spare = Spare {
            kind: Kind::Buckets,
            block: None,
            directory: None,
            has_grown: false,
        };
        loop {
            let mut index = self.index.lock();
            if spare.has_memory() {
                spare.attach(index.storage_mut());
            }
            let Some(kind) = index.lack(parts) else {
                let result = work(&mut index);
                // Releases the lock first, so that the remaining `spare` is freed without it.
                drop(index);
                if let Some(host) = host().filter(|_| spare.has_grown) {
                    host.ssd.note_index_growth();
                }
                return Ok(result);
            };
            let segments = &index.storage().segments[kind as usize];
            let full = segments.len();
            let has_place = full < segments.capacity();
            drop(index);
            spare.kind = kind;
            spare.replenish(if has_place { None } else { Some(full) })?;
        }
    }

    /// Extends the lists to at least `count`.
    pub(crate) fn extend_lists(&self, count: usize) -> Result<(), AllocError> {
        // A guest may create and destroy pools often, for which no memory should be allocated.
        if self.index.lock().storage().lists.len() >= count {
            return Ok(());
        }
        let mut lists = KVVec::from_elem(List::default(), count, charged())?;
        let mut index = self.index.lock();
        let current = &mut index.storage_mut().lists;
        if current.len() < lists.len() {
            lists[..current.len()].copy_from_slice(current);
            core::mem::swap(current, &mut lists);
        }
        drop(index);
        Ok(())
    }

    /// Resets the counters of a list. Fails while the list has pages.
    pub(crate) fn reset_list(&self, list: u16) -> bool {
        let mut index = self.index.lock();
        match index.storage_mut().lists.get_mut(usize::from(list)) {
            Some(list) => list.reset(),
            None => true,
        }
    }

    /// Frees the memory of the segments. The index must have no pages and must not be used
    /// afterwards.
    pub(crate) fn dismantle(&self) {
        let mut index = self.index.lock();
        let empty = [const { KVVec::new() }; Kind::ALL.len()];
        let segments = core::mem::replace(&mut index.storage_mut().segments, empty);
        drop(index);
        let count: usize = segments.iter().map(|segments| segments.len()).sum();
        totals().index_bytes.subtract((count * PAGE_SIZE) as u64);
        note_index();
    }
}

/// Notes the memory of the index for its limit.
fn note_index() {
    if let Some(host) = host() {
        host.ssd.note_index();
    }
}

/// Memory for a shard, which is allocated without the lock and attached under it.
struct Spare {
    kind: Kind,
    block: Option<KBox<Block>>,
    directory: Option<Directory>,
    /// Whether a block was attached.
    has_grown: bool,
}

impl Spare {
    fn replenish(&mut self, full: Option<usize>) -> Result<(), AllocError> {
        if self.block.is_none() {
            self.block = Some(KBox::zeroed(without_waiting())?);
        }
        if let Some(full) = full {
            let capacity = full + full / 2 + 8;
            self.directory = Some(KVVec::with_capacity(capacity, without_waiting())?);
        }
        Ok(())
    }

    /// Returns whether there is memory to attach. The index looks for room again after each access
    /// to its storage, so that the storage is only accessed if there is.
    const fn has_memory(&self) -> bool {
        self.block.is_some() || self.directory.is_some()
    }

    /// Attaches the memory. This runs under the lock, so that it neither allocates nor frees
    /// memory.
    fn attach(&mut self, memory: &mut Memory) {
        let segments = &mut memory.segments[self.kind as usize];
        if let Some(mut larger) = self.directory.take() {
            if larger.capacity() > segments.len() {
                core::mem::swap(&mut larger, segments);
                for segment in larger.drain_all() {
                    // The capacity suffices; it was compared above.
                    let _ = segments.push_within_capacity(segment);
                }
            }
            self.directory = Some(larger);
        }
        if segments.len() < segments.capacity() {
            if let Some(block) = self.block.take() {
                let _ = segments.push_within_capacity(block);
                totals().index_bytes.add(PAGE_SIZE as u64);
                self.has_grown = true;
            }
        }
    }
}

const _: () = assert!(size_of::<Block>() <= PAGE_SIZE);
