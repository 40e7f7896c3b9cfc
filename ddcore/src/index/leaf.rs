// SPDX-License-Identifier: GPL-2.0-only

//! Leaves: the handles of blocks with more than one page. A leaf is a cache line.

use super::arena::{Arena, Piece};
use super::block::BLOCK_PAGES;
use super::segment::Kind;
use super::{Index, Storage, NONE};

/// The lower 32 bits of the handles of a block's pages, each at the place of its page. The first
/// two places of a free leaf have its neighbours in the list of free leaves.
pub(super) type Leaf = [u32; BLOCK_PAGES];

/// The block of a leaf, or [`NONE`] if the leaf is free.
pub(super) type Owner = u32;

impl Piece for Leaf {
    const KIND: Kind = Kind::Leaves;
    const LIMIT: usize = u32::MAX as usize;

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

    /// Allocates a leaf for a block. The caller has checked that there is room.
    pub(super) fn allocate_leaf(&mut self, owner: u32) -> u32 {
        let mut leaf = self.reuse::<Leaf>();
        if leaf == NONE {
            leaf = self.leaves.high;
            self.leaves.set_high(leaf + 1);
            self.leaves.used += 1;
        }
        self.set_leaf_owner(leaf, owner);
        leaf
    }

    pub(super) fn release_leaf(&mut self, leaf: u32) {
        self.set_leaf_owner(leaf, NONE);
        self.release::<Leaf>(leaf);
    }

    /// Sets the block of a leaf.
    pub(super) fn set_leaf_owner(&mut self, leaf: u32, owner: u32) {
        *self.item_mut::<Owner>(Kind::Owners, leaf) = owner;
    }

    /// Takes the highest number of a leaf out of use. A leaf that has it moves to a free number.
    pub(super) fn drop_leaf(&mut self) {
        let highest = self.leaves.high - 1;
        let owner = *self.item::<Owner>(Kind::Owners, highest);
        if owner == NONE {
            self.withdraw::<Leaf>(highest);
        } else {
            let target = self.vacancy::<Leaf>();
            *self.leaf_mut(target) = *self.leaf(highest);
            self.set_leaf_owner(target, owner);
            self.block_mut(owner).set_body(target);
        }
        *self.leaf_mut(highest) = [0; BLOCK_PAGES];
        self.set_leaf_owner(highest, NONE);
        self.leaves.set_high(highest);
    }
}
