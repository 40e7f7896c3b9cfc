// SPDX-License-Identifier: GPL-2.0-only

//! The hash table of blocks: linear hashing, with one bucket for each two blocks.
//!
//! A bucket is a cache line, and contains four blocks. An operation on a single page therefore
//! needs no other memory to find a block, or to find that there is none. If there are more than
//! four blocks, the last slot of the bucket has a link to [spills](super::spill).
//!
//! The number of a block is that of its slot, or of its spill. A block moves to another number only
//! when its bucket is split, joined with another one, or overflows, and when memory is trimmed.

use super::arena;
use super::batch::Part;
use super::block::{Block, BlockName};
use super::segment::Kind;
use super::spill::{Spill, SPILLED};
use super::spread::Spread;
use super::{Index, Storage, NONE};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Slots of a bucket.
pub(super) const SLOTS: u32 = 4;

/// The slot that may have a link.
const LAST: usize = SLOTS as usize - 1;

/// Average number of blocks of a bucket. Because buckets that are not split yet have twice as many,
/// one bucket in fifteen overflows.
pub(super) const LOAD: u32 = 2;

/// The slots of a bucket. Bucket 0 is never used, so that no block has number 0.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(transparent)]
pub(super) struct Bucket([Block; SLOTS as usize]);

impl Bucket {
    /// Returns the slots whose content passes a test, as a bitmap.
    ///
    /// The function has no branches, because a misprediction would stall on the cache miss of the
    /// bucket.
    #[inline]
    fn slots(&self, test: impl Fn(&Block) -> u32) -> u32 {
        let [first, second, third, last] = &self.0;
        (test(first) + test(second) * 2) + (test(third) + test(last) * 2) * 4
    }

    /// Returns whether a slot has a block with a name.
    #[inline]
    fn has(&self, name: BlockName) -> bool {
        self.slots(|block| block.name_bit(name)) != 0
    }

    /// Returns the number of the first spill, or [`NONE`].
    #[inline]
    fn chain(&self) -> u32 {
        self.0[LAST].linked().unwrap_or(NONE)
    }
}

/// The state of the table.
#[derive(Debug)]
pub(super) struct Blocks {
    /// Number of blocks.
    pub(super) used: u32,
    spread: Spread,
    /// Whether the last bucket could not be joined, because there was no memory for spills. Cleared
    /// when a block is removed.
    is_stuck: bool,
}

impl Blocks {
    pub(super) const fn new() -> Self {
        Self {
            used: 0,
            spread: Spread::new(0),
            is_stuck: false,
        }
    }

    /// Returns the number of buckets.
    pub(super) const fn buckets(&self) -> u32 {
        self.spread.buckets()
    }

    /// Returns how hashes are spread over the buckets.
    pub(super) const fn spread(&self) -> &Spread {
        &self.spread
    }

    /// Returns the number of the bucket of a hash.
    #[inline]
    pub(super) const fn bucket(&self, hash: u32) -> u32 {
        self.spread.bucket(hash) + 1
    }

    /// Returns whether there are so many buckets that memory should be released, and whether that
    /// is possible.
    pub(super) const fn is_slack(&self) -> bool {
        !self.is_stuck && arena::is_slack(self.used, self.buckets() * LOAD)
    }

    /// Returns the number of segments of `each` buckets that are needed.
    pub(super) const fn segments(&self, each: u32) -> usize {
        match self.buckets() {
            0 => 0,
            buckets => (buckets + 1).div_ceil(each) as usize,
        }
    }
}

impl<S: Storage> Index<S> {
    #[inline]
    fn bucket(&self, number: u32) -> &Bucket {
        self.item(Kind::Buckets, number)
    }

    #[inline]
    fn bucket_mut(&mut self, number: u32) -> &mut Bucket {
        self.item_mut(Kind::Buckets, number)
    }

    /// Reads the bucket of a hash into the processor's caches. The index must have a block. Returns
    /// a bit of the bucket, which the caller must use, so that the read is not optimized away.
    #[inline]
    pub(super) fn touch_bucket(&self, hash: u32) -> u32 {
        self.bucket(self.blocks.bucket(hash)).0[0].empty_bit()
    }

    /// Returns a block that is probably the first one of a part, or [`NONE`] if the part has none.
    /// The caller compares the file. The index must have a block.
    #[inline]
    pub(super) fn candidate(&self, part: &Part) -> u32 {
        let number = self.blocks.bucket(part.hash);
        let bucket = self.bucket(number);
        let hits = bucket.slots(|block| block.index_bit(part.block));
        if hits != 0 && hits & (hits - 1) == 0 {
            number * SLOTS + hits.trailing_zeros()
        } else if hits == 0 {
            match bucket.chain() {
                NONE => NONE,
                spill => self.candidate_behind(spill, part.block),
            }
        } else {
            self.pick(number, hits, part)
        }
    }

    /// Returns the slot whose block is probably that of a part, with its number, if there is
    /// exactly one. The index must have, or have had, a block.
    #[inline(always)]
    pub(super) fn only_candidate(&mut self, part: &Part) -> Option<(u32, &mut Block)> {
        let number = self.blocks.bucket(part.hash);
        let bucket = self.bucket_mut(number);
        let hits = bucket.slots(|block| block.index_bit(part.block));
        if hits == 0 || hits & (hits - 1) != 0 {
            return None;
        }
        let slot = hits.trailing_zeros();
        Some((number * SLOTS + slot, bucket.0.get_mut(slot as usize)?))
    }

    /// Returns the first spill, beginning with `at`, that may have a block with this index, or
    /// [`NONE`].
    #[inline(never)]
    fn candidate_behind(&self, mut at: u32, index: u32) -> u32 {
        while at != NONE {
            let spill = self.spill(at);
            if spill.block.has_index(index) {
                return SPILLED | at;
            }
            at = spill.next;
        }
        NONE
    }

    /// Returns the first block of a part's file among some slots, or else a spill that may have
    /// one.
    #[inline(never)]
    fn pick(&self, bucket: u32, mut slots: u32, part: &Part) -> u32 {
        while slots != 0 {
            let number = bucket * SLOTS + slots.trailing_zeros();
            if self.file(self.block(number).file()).is(&part.file) {
                return number;
            }
            slots &= slots - 1;
        }
        self.candidate_behind(self.bucket(bucket).chain(), part.block)
    }

    /// Returns the first block of a part. There may be others.
    #[inline]
    pub(super) fn find_block(&self, part: &Part, file: u32) -> u32 {
        if file == NONE {
            return NONE;
        }
        self.first_block(part.hash, BlockName::new(file, part.block))
    }

    /// Returns the first block with a name. The index must have, or have had, a block.
    #[inline]
    pub(super) fn first_block(&self, hash: u32, name: BlockName) -> u32 {
        let number = self.blocks.bucket(hash);
        let bucket = self.bucket(number);
        let hits = bucket.slots(|block| block.name_bit(name));
        if hits != 0 {
            number * SLOTS + hits.trailing_zeros()
        } else if bucket.chain() == NONE {
            NONE
        } else {
            self.named(SPILLED | bucket.chain(), name)
        }
    }

    /// Returns the next block with the same name.
    pub(super) fn next_block(&self, number: u32) -> u32 {
        self.named(self.following(number), self.block(number).name())
    }

    /// Returns the first block with a name, beginning with block `number`.
    #[inline(never)]
    fn named(&self, mut number: u32, name: BlockName) -> u32 {
        while number != NONE && !self.block(number).is(name) {
            number = self.following(number);
        }
        number
    }

    /// Returns the first block of a bucket, or [`NONE`].
    pub(super) fn first_of(&self, bucket: u32) -> u32 {
        self.at_or_after(bucket, 0)
    }

    /// Returns the block that follows another one in its bucket, or [`NONE`].
    pub(super) fn following(&self, number: u32) -> u32 {
        if number & SPILLED == 0 {
            self.at_or_after(number / SLOTS, number % SLOTS + 1)
        } else {
            match self.spill(number & !SPILLED).next {
                NONE => NONE,
                next => SPILLED | next,
            }
        }
    }

    fn at_or_after(&self, bucket: u32, slot: u32) -> u32 {
        let blocks = self.bucket(bucket);
        for (at, block) in (0..).zip(&blocks.0).skip(slot as usize) {
            if block.is_used() {
                return bucket * SLOTS + at;
            }
        }
        match blocks.chain() {
            NONE => NONE,
            spill => SPILLED | spill,
        }
    }

    /// Allocates a place for a block like [`Self::add_place`], unless there is a block with this
    /// name, or a bucket has to be split first.
    #[inline(always)]
    pub(super) fn add_place_unless(&mut self, hash: u32, name: BlockName) -> Option<u32> {
        if self.blocks.used >= self.blocks.buckets() * LOAD {
            return None;
        }
        let number = self.blocks.bucket(hash);
        let bucket = self.bucket(number);
        let empty = bucket.slots(Block::empty_bit);
        if bucket.has(name) {
            return None;
        }
        let chain = bucket.chain();
        let number = match empty {
            1.. if chain == NONE => number * SLOTS + empty.trailing_zeros(),
            _ => self.place_beside(number, empty, name)?,
        };
        self.blocks.used += 1;
        Some(number)
    }

    /// Allocates a place for a block in a bucket that is full or has spills, unless one of the
    /// spills has its name.
    #[inline(never)]
    fn place_beside(&mut self, bucket: u32, empty: u32, name: BlockName) -> Option<u32> {
        let mut at = self.bucket(bucket).chain();
        while at != NONE {
            let spill = self.spill(at);
            if spill.block.is(name) {
                return None;
            }
            at = spill.next;
        }
        Some(match empty {
            0 => self.overflow(bucket),
            _ => bucket * SLOTS + empty.trailing_zeros(),
        })
    }

    /// Allocates a place for another block with this hash, and returns its number. The caller has
    /// checked that there is room, and writes the block.
    #[inline]
    pub(super) fn add_place(&mut self, hash: u32) -> u32 {
        if self.blocks.used >= self.blocks.buckets() * LOAD {
            self.split();
        }
        self.blocks.used += 1;
        self.place(hash)
    }

    #[inline]
    fn place(&mut self, hash: u32) -> u32 {
        let number = self.blocks.bucket(hash);
        match self.bucket(number).slots(Block::empty_bit) {
            0 => self.overflow(number),
            empty => number * SLOTS + empty.trailing_zeros(),
        }
    }

    /// Allocates a spill for a block of a full bucket.
    #[inline(never)]
    fn overflow(&mut self, bucket: u32) -> u32 {
        let last = self.bucket(bucket).0[LAST];
        let mut next = self.bucket(bucket).chain();
        if next == NONE {
            next = self.begin_spill(&Spill::new(last, NONE, bucket));
            self.redirect_block(SPILLED | next);
        }
        let number = self.begin_spill(&Spill::new(Block::default(), next, bucket));
        self.bucket_mut(bucket).0[LAST] = Block::link(number);
        SPILLED | number
    }

    /// Removes a block from its bucket.
    #[inline]
    pub(super) fn remove_place(&mut self, number: u32) {
        self.count_removed();
        if number & SPILLED == 0 {
            *self.item_mut(Kind::Buckets, number) = Block::default();
        } else {
            self.end_spill(number & !SPILLED);
        }
    }

    /// Counts a block that was removed from its bucket.
    #[inline]
    pub(super) fn count_removed(&mut self) {
        self.blocks.used -= 1;
        self.blocks.is_stuck = false;
    }

    /// Makes the bucket or the spill that refers to a spill refer to another one, or to none.
    pub(super) fn relink(&mut self, bucket: u32, from: u32, to: u32) {
        let first = self.bucket(bucket).chain();
        if first == from {
            self.bucket_mut(bucket).0[LAST] = match to {
                NONE => Block::default(),
                to => Block::link(to),
            };
            return;
        }
        let mut at = first;
        while at != NONE {
            let next = self.spill(at).next;
            if next == from {
                self.spill_mut(at).next = to;
                return;
            }
            at = next;
        }
    }

    /// Adds a bucket.
    #[cold]
    #[inline(never)]
    fn split(&mut self) {
        let buckets = self.blocks.buckets() + 1;
        self.blocks.spread = Spread::new(buckets);
        if buckets > 1 {
            self.rehash(self.blocks.spread.parent() + 1);
        }
    }

    /// Removes the last bucket, unless there is no memory for the spills that this needs.
    pub(super) fn drop_bucket(&mut self) {
        let last = self.blocks.buckets();
        let (mut count, mut at) = (0, self.first_of(last));
        while at != NONE {
            (count, at) = (count + 1, self.following(at));
        }
        if count > 0 {
            // There is another bucket, because a single bucket is never removed while it has
            // blocks.
            let target = self.blocks.spread.parent() + 1;
            let empty = self.bucket(target).slots(Block::empty_bit).count_ones() as usize;
            // A link replaces one more block.
            if count > empty && self.room::<Spill>() <= count - empty {
                self.blocks.is_stuck = true;
                return;
            }
        }
        self.blocks.spread = Spread::new(last - 1);
        self.rehash(last);
    }

    /// Empties a bucket and adds its blocks to the buckets of their hashes.
    ///
    /// When a bucket is split, this needs no more spills than it frees: the first four blocks get
    /// slots, and each of the others was a spill.
    fn rehash(&mut self, number: u32) {
        let bucket = core::mem::take(self.bucket_mut(number));
        let mut spill = bucket.chain();
        for (from, block) in (number * SLOTS..).zip(bucket.0) {
            if block.is_used() {
                self.add_again(block, from);
            }
        }
        while spill != NONE {
            let Spill { block, next, .. } = *self.spill(spill);
            self.release::<Spill>(spill);
            self.add_again(block, SPILLED | spill);
            spill = next;
        }
    }

    /// Adds a block again that was removed from number `from`.
    fn add_again(&mut self, block: Block, from: u32) {
        let file = self.hasher.file(self.file(block.file()).key());
        let number = self.place(self.hasher.block(file, block.index()));
        *self.block_mut(number) = block;
        if number != from {
            self.redirect_block(number);
        }
    }
}

const _: () = assert!(size_of::<Bucket>() == 64);
