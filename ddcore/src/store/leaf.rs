// SPDX-License-Identifier: GPL-2.0-only

//! Leaves: the handles of blocks that have more than one page, a cache line each.

use super::arena::{Arena, Piece};
use super::block::BLOCK_PAGES;
use super::segment::Kind;
use super::{Storage, Store, NONE};

/// The lower 32 bits of the handles of a block's pages, each at its page's place. A free leaf has
/// the numbers of its neighbours in the list of free leaves in the first two places.
pub(super) type Leaf = [u32; BLOCK_PAGES];

/// The block that a leaf belongs to; [`NONE`] if it is free.
pub(super) type Owner = u32;

impl Piece for Leaf {
    const KIND: Kind = Kind::Leaves;
    const LIMIT: usize = u32::MAX as usize;

    fn arena<S>(store: &Store<S>) -> &Arena {
        &store.leaves
    }

    fn arena_mut<S>(store: &mut Store<S>) -> &mut Arena {
        &mut store.leaves
    }

    fn free_links(&self) -> (u32, u32) {
        (self[0], self[1])
    }

    fn set_free(&mut self, before: u32, after: u32) {
        (self[0], self[1]) = (before, after);
    }
}

impl<S: Storage> Store<S> {
    #[inline]
    pub(super) fn leaf(&self, leaf: u32) -> &Leaf {
        self.item(Kind::Leaves, leaf)
    }

    #[inline]
    pub(super) fn leaf_mut(&mut self, leaf: u32) -> &mut Leaf {
        self.item_mut(Kind::Leaves, leaf)
    }

    /// Leaves that can be taken before more segments are needed.
    pub(super) fn leaf_room(&self) -> usize {
        let owners = self.capacity::<Owner>(Kind::Owners);
        self.room::<Leaf>()
            .min(owners.saturating_sub(self.leaves.used as usize + 1))
    }

    /// A leaf for a block; the caller has seen that there is room.
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

    /// Tells a leaf whose it is.
    pub(super) fn set_leaf_owner(&mut self, leaf: u32, owner: u32) {
        *self.item_mut::<Owner>(Kind::Owners, leaf) = owner;
    }

    /// Takes the highest leaf out of use: what it holds moves to a free one.
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
