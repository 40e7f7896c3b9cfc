// SPDX-License-Identifier: GPL-2.0-only

//! Leaves: the handles of blocks with more than one page. A leaf is a cache line.

use super::arena::{Arena, Piece};
use super::block::{Field, BLOCK_PAGES, LEAF_BITS};
use super::segment::Kind;
use super::{Index, Storage, NONE};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The lower 32 bits of the handles of a block's pages, each at the position of its page. The first
/// two elements of a free leaf link it to the previous and the next one in the list of free leaves.
pub(super) type Leaf = [u32; BLOCK_PAGES];

const BLOCK: Field = Field::new(0, 32);
const HIGH: Field = Field::new(32, 8);

/// The other data of a leaf: the number of its block, which is [`NONE`] if the leaf is free, and
/// the upper eight bits that all handles have in common.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(transparent)]
pub(super) struct Owner(u64);

impl Owner {
    /// Returns the number of the block.
    const fn block(self) -> u32 {
        BLOCK.get(self.0)
    }

    /// Returns the upper bits of the handles.
    #[inline]
    pub(super) const fn high(self) -> u32 {
        HIGH.get(self.0)
    }
}

impl Piece for Leaf {
    const KIND: Kind = Kind::Leaves;
    const LIMIT: usize = 1 << LEAF_BITS;

    fn arena<S>(index: &Index<S>) -> &Arena {
        &index.leaves
    }

    fn arena_mut<S>(index: &mut Index<S>) -> &mut Arena {
        &mut index.leaves
    }

    fn free_links(&self) -> (u32, u32) {
        (self[0], self[1])
    }

    fn set_free(&mut self, before: u32, after: u32) {
        (self[0], self[1]) = (before, after);
    }
}

impl<S: Storage> Index<S> {
    #[inline]
    pub(super) fn leaf(&self, leaf: u32) -> &Leaf {
        self.item(Kind::Leaves, leaf)
    }

    #[inline]
    pub(super) fn leaf_mut(&mut self, leaf: u32) -> &mut Leaf {
        self.item_mut(Kind::Leaves, leaf)
    }

    /// Returns the number of leaves that can be allocated before another segment is needed.
    pub(super) fn leaf_room(&self) -> usize {
        let owners = self.capacity::<Owner>(Kind::Owners);
        self.room::<Leaf>()
            .min(owners.saturating_sub(self.leaves.used as usize + 1))
    }

    /// Allocates a leaf for a block whose handles have these upper bits. The caller has checked
    /// that there is room.
    pub(super) fn allocate_leaf(&mut self, block: u32, high: u32) -> u32 {
        let mut leaf = self.reuse::<Leaf>();
        if leaf == NONE {
            leaf = self.leaves.high;
            self.leaves.set_high(leaf + 1);
            self.leaves.used += 1;
        }
        *self.owner_mut(leaf) = Owner(BLOCK.put(block) | HIGH.put(high));
        leaf
    }

    pub(super) fn release_leaf(&mut self, leaf: u32) {
        *self.owner_mut(leaf) = Owner::default();
        self.release::<Leaf>(leaf);
    }

    #[inline]
    pub(super) fn owner(&self, leaf: u32) -> Owner {
        *self.item(Kind::Owners, leaf)
    }

    fn owner_mut(&mut self, leaf: u32) -> &mut Owner {
        self.item_mut(Kind::Owners, leaf)
    }

    /// Updates the number of the block of a leaf.
    pub(super) fn set_leaf_slot(&mut self, leaf: u32, block: u32) {
        BLOCK.set(&mut self.owner_mut(leaf).0, block);
    }

    /// Takes the highest number of a leaf out of use. If a leaf in use has this number, it moves to
    /// a free one.
    pub(super) fn drop_leaf(&mut self) {
        let highest = self.leaves.high - 1;
        let owner = self.owner(highest);
        if owner.block() == NONE {
            self.withdraw::<Leaf>(highest);
        } else {
            let target = self.vacancy::<Leaf>();
            *self.leaf_mut(target) = *self.leaf(highest);
            *self.owner_mut(target) = owner;
            self.block_mut(owner.block()).set_leaf_number(target);
        }
        *self.leaf_mut(highest) = [0; BLOCK_PAGES];
        *self.owner_mut(highest) = Owner::default();
        self.leaves.set_high(highest);
    }
}
