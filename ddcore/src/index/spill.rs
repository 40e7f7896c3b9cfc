// SPDX-License-Identifier: GPL-2.0-only

//! Spills: blocks of full buckets. The spills of a bucket form a chain.

use super::arena::{Arena, Piece};
use super::block::Block;
use super::segment::Kind;
use super::{Index, Storage, NONE};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The bit that distinguishes the number of a block that is in a spill from that of a slot.
pub(super) const SPILLED: u32 = 1 << (NUMBER_BITS - 1);

/// Number of bits of the number of a block.
pub(super) const NUMBER_BITS: u32 = 28;

/// A block that has no slot, or a free spill.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(super) struct Spill {
    pub(super) block: Block,
    /// The next spill of the bucket. In a free spill, the next one in the list of free spills.
    pub(super) next: u32,
    /// The bucket. In a free spill, the previous one in the list of free spills.
    bucket: u32,
    unused: u64,
}

impl Spill {
    /// Creates a spill of a bucket.
    pub(super) const fn new(block: Block, next: u32, bucket: u32) -> Self {
        Self {
            block,
            next,
            bucket,
            unused: 0,
        }
    }
}

impl Piece for Spill {
    const KIND: Kind = Kind::Spills;
    const LIMIT: usize = SPILLED as usize;

    fn arena<S>(index: &Index<S>) -> &Arena {
        &index.spills
    }

    fn arena_mut<S>(index: &mut Index<S>) -> &mut Arena {
        &mut index.spills
    }

    fn free_links(&self) -> (u32, u32) {
        (self.bucket, self.next)
    }

    fn set_free(&mut self, before: u32, after: u32) {
        *self = Self::new(Block::default(), after, before);
    }
}

impl<S: Storage> Index<S> {
    #[inline]
    pub(super) fn spill(&self, number: u32) -> &Spill {
        self.item(Kind::Spills, number)
    }

    #[inline]
    pub(super) fn spill_mut(&mut self, number: u32) -> &mut Spill {
        self.item_mut(Kind::Spills, number)
    }

    /// Allocates a spill and returns its number. The caller has checked that there is room.
    pub(super) fn begin_spill(&mut self, spill: &Spill) -> u32 {
        let mut number = self.reuse::<Spill>();
        if number == NONE {
            number = self.spills.high;
            self.spills.set_high(number + 1);
            self.spills.used += 1;
        }
        *self.spill_mut(number) = *spill;
        number
    }

    /// Removes a spill from its chain and frees it.
    #[inline(never)]
    pub(super) fn end_spill(&mut self, number: u32) {
        let Spill { next, bucket, .. } = *self.spill(number);
        self.relink(bucket, number, next);
        self.release::<Spill>(number);
    }

    /// Takes the highest number of a spill out of use. If a block has this number, it moves to a
    /// free one.
    pub(super) fn drop_spill(&mut self) {
        // Buckets that were joined before may have released spills.
        self.settle::<Spill>();
        let highest = self.spills.high - 1;
        let spill = *self.spill(highest);
        if spill.block.is_used() {
            let target = self.vacancy::<Spill>();
            *self.spill_mut(target) = spill;
            self.relink(spill.bucket, highest, target);
            self.redirect_block(SPILLED | target);
        } else {
            self.withdraw::<Spill>(highest);
        }
        *self.spill_mut(highest) = Spill::default();
        self.spills.set_high(highest);
    }
}

const _: () = assert!(size_of::<Spill>() == 32);
