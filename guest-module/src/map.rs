// SPDX-License-Identifier: GPL-2.0-only

//! The presence map: which pages the host may hold. The logic is in [`ddcore::presence`]; this file
//! adds shards, locks and memory.

use crate::ffi::{cpu, machine};
use crate::lock::{new_irq_lock, IrqLock};
use crate::memory::gfp_nowarn;
use ddabi::answer::Eviction;
use ddabi::key::FileKey;
use ddcore::presence::{
    ChunkSlot, Claim, Counters, Cursor, FileSlot, Finished, Refused, Seed, Shard, Slots, Step,
};
use kernel::prelude::*;

/// Number of shards. All pages of a file are in one of them.
const SHARDS: usize = 64;
/// Number of slots of one kind in a segment, which is the unit in which a shard grows.
const SEGMENT: usize = 64;
/// Size in bytes of a segment of files together with a segment of chunks.
const SEGMENT_BYTES: u64 = (SEGMENT * (size_of::<FileSlot>() + size_of::<ChunkSlot>())) as u64;
/// Number of segments that each shard has from the start.
const FIRST_SEGMENTS: usize = 2;
/// Maximum number of slots or chunks that are examined at a time under the lock of a shard, with
/// interrupts off. This takes some tens of microseconds if each of them is a cache miss.
const STEP: u32 = 256;
/// Number of chunks that a shard reclaims at a time if it may not grow.
const RECLAIM: u32 = 32;

/// Slots in segments that are never moved, so that growing copies nothing under a lock.
struct Segments<T>(KVVec<KVec<T>>);

macro_rules! slots {
    ($($slot:ty),*) => {$(
        impl Slots for Segments<$slot> {
            type Slot = $slot;

            fn count(&self) -> u32 {
                (self.0.len() * SEGMENT) as u32
            }

            fn get(&self, slot: u32) -> Option<&$slot> {
                self.0.get(slot as usize / SEGMENT)?.get(slot as usize % SEGMENT)
            }

            fn get_mut(&mut self, slot: u32) -> Option<&mut $slot> {
                self.0.get_mut(slot as usize / SEGMENT)?.get_mut(slot as usize % SEGMENT)
            }
        }
    )*};
}

slots!(FileSlot, ChunkSlot);

type MapShard = Shard<Segments<FileSlot>, Segments<ChunkSlot>>;

/// The presence map of the VM.
pub(crate) struct Map {
    shards: KVec<Pin<KBox<IrqLock<MapShard>>>>,
    /// Seed of the hash that selects the shard of a file.
    seed: Seed,
    max_segments: usize,
}

impl Map {
    /// Allocates an empty map of at most `bytes`, but at least [`FIRST_SEGMENTS`] for each shard.
    /// Sleeps.
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        let segments = (bytes / SHARDS as u64 / SEGMENT_BYTES) as usize;
        let max_segments = segments.clamp(FIRST_SEGMENTS, 1 << 16);
        let mut shards = KVec::with_capacity(SHARDS, gfp_nowarn())?;
        for _ in 0..SHARDS {
            let shard = Shard::new(
                Segments(KVVec::with_capacity(max_segments, gfp_nowarn())?),
                Segments(KVVec::with_capacity(max_segments, gfp_nowarn())?),
                seed(),
            );
            let shard = KBox::pin_init(new_irq_lock!(shard, "Map::shard"), gfp_nowarn())?;
            shards.push(shard, gfp_nowarn())?;
        }
        let map = Self {
            shards,
            seed: seed(),
            max_segments,
        };
        for _ in 0..FIRST_SEGMENTS {
            for shard in &map.shards {
                map.extend(shard)?;
            }
        }
        Ok(map)
    }

    fn with<R>(&self, file: &FileKey, work: impl FnOnce(&mut MapShard) -> R) -> R {
        self.shards[self.seed.hash(file.inode_words()) as usize % SHARDS].with(work)
    }

    /// See [`Shard::begin_put`].
    pub(crate) fn begin_put(&self, file: &FileKey, index: u64, pages: u32) -> Result<(), Refused> {
        self.with(file, |shard| shard.begin_put(file, index, pages))
    }

    /// See [`Shard::finish_put`].
    pub(crate) fn finish_put(
        &self,
        file: &FileKey,
        index: u64,
        pages: u32,
        stored: bool,
    ) -> Finished {
        self.with(file, |shard| shard.finish_put(file, index, pages, stored))
    }

    /// See [`Shard::claim`].
    pub(crate) fn claim(&self, file: &FileKey, index: u64, pages: u32) -> Claim {
        self.with(file, |shard| shard.claim(file, index, pages))
    }

    /// See [`Shard::claim_retained`].
    pub(crate) fn claim_retained(&self, file: &FileKey, index: u64, pages: u32) -> Claim {
        self.with(file, |shard| shard.claim_retained(file, index, pages))
    }

    /// See [`Shard::peek`].
    pub(crate) fn peek(&self, file: &FileKey, index: u64, pages: u32) -> bool {
        self.with(file, |shard| shard.peek(file, index, pages))
    }

    /// See [`Shard::present_run`].
    pub(crate) fn present_run(&self, file: &FileKey, index: u64, max_pages: u64) -> u64 {
        self.with(file, |shard| shard.present_run(file, index, max_pages))
    }

    /// Clears the bits of pages `first..=last` and returns how many were set. A folio takes one
    /// step (see [`Shard::invalidate_step`]). Between two steps of a larger range the shard is
    /// unlocked and `pause` is called.
    pub(crate) fn invalidate(
        &self,
        file: &FileKey,
        first: u64,
        last: u64,
        mut pause: impl FnMut(),
    ) -> u64 {
        let (mut cursor, mut cleared) = (Cursor::default(), 0);
        loop {
            let step = self.with(file, |shard| {
                shard.invalidate_step(file, first, last, &mut cursor, STEP)
            });
            cleared += step.cleared;
            if step.done {
                return cleared;
            }
            pause();
        }
    }

    /// See [`Shard::notice`].
    pub(crate) fn notice(&self, eviction: &Eviction) -> u64 {
        let Eviction {
            file, index, pages, ..
        } = eviction;
        self.with(file, |shard| shard.notice(file, *index, *pages))
    }

    /// Forgets the pages of filesystems that were unmounted and returns their number. Visits all
    /// slots. Sleeps.
    pub(crate) fn forget_filesystems(&self, is_gone: impl Fn(u32) -> bool) -> u64 {
        self.sweep(|shard, cursor| shard.forget_filesystems(&is_gone, cursor, STEP))
    }

    /// Forgets pages of files whose inode got another generation and returns how many there were.
    /// Sleeps.
    pub(crate) fn forget_outdated(&self) -> u64 {
        self.sweep(|shard, cursor| {
            if shard.has_outdated() {
                shard.forget_outdated(cursor, STEP)
            } else {
                Step {
                    done: true,
                    ..Step::default()
                }
            }
        })
    }

    /// Forgets all pages and returns how many there were. Visits all slots. Sleeps.
    pub(crate) fn clear(&self) -> u64 {
        self.sweep(|shard, cursor| shard.clear(cursor, STEP))
    }

    fn sweep(&self, mut step: impl FnMut(&mut MapShard, &mut Cursor) -> Step) -> u64 {
        let mut cleared = 0;
        for shard in &self.shards {
            let mut cursor = Cursor::default();
            loop {
                let done = shard.with(|shard| step(shard, &mut cursor));
                cleared += done.cleared;
                if done.done {
                    break;
                }
                cpu::cond_resched();
            }
        }
        cleared
    }

    /// Makes room in shards that have little left: allocates memory, or, if the map has reached its
    /// bound, frees the slots of the pages that were put longest ago. Calls `dropped` with each
    /// range of pages that was dropped. Sleeps.
    pub(crate) fn make_room(&self, mut dropped: impl FnMut(FileKey, u64, u64)) -> Result {
        for shard in &self.shards {
            if !shard.with(|shard| shard.low().any()) {
                continue;
            }
            if self.extend(shard)? {
                continue;
            }
            let mut given_up = [(FileKey::default(), 0, 0); RECLAIM as usize];
            let mut count = 0;
            shard.with(|shard| {
                let _ = shard.reclaim(RECLAIM, |file, first, last| {
                    if let Some(place) = given_up.get_mut(count) {
                        *place = (file, first, last);
                        count += 1;
                    }
                });
            });
            for (file, first, last) in &given_up[..count] {
                dropped(*file, *first, *last);
            }
        }
        Ok(())
    }

    /// Doubles the slots of a shard within the bound. Returns `false` if the bound is reached.
    /// Sleeps.
    fn extend(&self, shard: &IrqLock<MapShard>) -> Result<bool> {
        let has = shard.with(|shard| shard.file_slots_mut().0.len());
        let wanted = has
            .max(1)
            .min(self.max_segments - has.min(self.max_segments));
        for _ in 0..wanted {
            let files = KVec::from_elem(FileSlot::EMPTY, SEGMENT, gfp_nowarn())?;
            let chunks = KVec::from_elem(ChunkSlot::EMPTY, SEGMENT, gfp_nowarn())?;
            // The outer vectors have the capacity for the maximum number of segments, so that
            // nothing is allocated under the lock.
            shard.with(|shard| {
                let _ = shard.file_slots_mut().0.push_within_capacity(files);
                let _ = shard.chunk_slots_mut().0.push_within_capacity(chunks);
                shard.adopt(u32::MAX)
            });
        }
        Ok(wanted > 0)
    }

    /// Returns the sums over all shards, and their size in bytes.
    pub(crate) fn counters(&self) -> (Counters, u64) {
        let mut sum = Counters::default();
        let mut bytes = 0;
        for shard in &self.shards {
            let one = shard.with(|shard| shard.counters());
            sum.files += one.files;
            sum.chunks += one.chunks;
            sum.present += one.present;
            sum.going += one.going;
            sum.dropped += one.dropped;
            bytes += u64::from(one.file_slots) * size_of::<FileSlot>() as u64
                + u64::from(one.chunk_slots) * size_of::<ChunkSlot>() as u64;
        }
        (sum, bytes)
    }
}

/// Returns a random seed. Programs that choose file names and inode numbers do not know it, so that
/// they cannot make all keys share a hash chain.
fn seed() -> Seed {
    Seed::new([machine::random(), machine::random()])
}
