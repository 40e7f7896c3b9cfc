// SPDX-License-Identifier: GPL-2.0-only

//! Which items of a kind are in use: numbers are given out from below, and those given back first.

use super::segment::{Item, Kind};
use super::{Storage, Store, NONE};

/// The numbers of a kind. Number 0 is never used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arena {
    /// Numbers below this one have been used.
    pub(super) high: u32,
    /// Numbers in use.
    pub(super) used: u32,
    /// First free number below `high`.
    free: u32,
    /// Buckets in the table of these items, if they have one.
    buckets: u32,
    /// One less than the power of two that is not below `buckets`.
    mask: u32,
    /// Numbers that became free last, to be used first: they are not in the list.
    fresh: [u32; FRESH],
    fresh_count: usize,
}

/// Numbers for which there is a bucket.
pub(super) const NUMBERS: u32 = 4;

/// So many numbers go and come without touching the list of free ones.
const FRESH: usize = 64;

impl Arena {
    pub(super) const fn new() -> Self {
        Self {
            high: 1,
            used: 0,
            free: NONE,
            buckets: 1,
            mask: 0,
            fresh: [NONE; FRESH],
            fresh_count: 0,
        }
    }

    /// Sets how many numbers have been used.
    pub(super) fn set_high(&mut self, high: u32) {
        self.high = high;
        self.buckets = high.div_ceil(NUMBERS);
        self.mask = self.buckets.next_power_of_two() - 1;
    }

    /// How many buckets there are.
    pub(super) const fn buckets(&self) -> u32 {
        self.buckets
    }

    /// The bucket of a hash.
    #[inline]
    pub(super) const fn bucket(&self, hash: u32) -> u32 {
        let bucket = hash & self.mask;
        if bucket < self.buckets {
            bucket
        } else {
            bucket & self.mask >> 1
        }
    }

    /// The bucket that was split to make the last one, of which there are at least two.
    pub(super) const fn parent(&self) -> u32 {
        (self.buckets - 1) & self.mask >> 1
    }

    /// Whether there are so many unused numbers that memory should be given back.
    pub(super) const fn is_slack(&self) -> bool {
        /// Unused numbers that there may always be, beside one for [`SHARE`] used ones, so that a
        /// store of steady size does not move its items about.
        const SLACK: u32 = 64;
        const SHARE: u32 = 16;
        let unused = self.high - 1 - self.used;
        if self.used > 0 {
            unused > SLACK + self.used / SHARE
        } else {
            unused > 0
        }
    }

    /// How many segments with `each` items are needed.
    pub(super) const fn segments(&self, each: u32) -> usize {
        self.segments_of(self.high, each)
    }

    /// How many segments with `each` buckets are needed.
    pub(super) const fn bucket_segments(&self, each: u32) -> usize {
        self.segments_of(self.buckets, each)
    }

    const fn segments_of(&self, items: u32, each: u32) -> usize {
        if self.high == 1 {
            0
        } else {
            items.div_ceil(each) as usize
        }
    }
}

/// What an arena gives out.
pub(super) trait Piece: Item {
    const KIND: Kind;

    /// Most numbers there can be.
    const LIMIT: usize;

    fn arena<S>(store: &Store<S>) -> &Arena;

    fn arena_mut<S>(store: &mut Store<S>) -> &mut Arena;

    /// Neighbours of a free item in the list of free items.
    fn free_links(&self) -> (u32, u32);

    /// Makes it a free item between two others.
    fn set_free(&mut self, before: u32, after: u32);
}

impl<S: Storage> Store<S> {
    /// Numbers that can be taken before more segments are needed.
    pub(super) fn room<T: Piece>(&self) -> usize {
        let capacity = self.capacity::<T>(T::KIND).min(T::LIMIT);
        capacity.saturating_sub(1 + T::arena(self).used as usize)
    }

    /// A number that is free now; [`NONE`] if there must be a new one.
    #[inline]
    pub(super) fn reuse<T: Piece>(&mut self) -> u32 {
        let arena = T::arena_mut(self);
        if let Some(last) = arena.fresh_count.checked_sub(1) {
            arena.fresh_count = last;
            arena.used += 1;
            return arena.fresh[last % FRESH];
        }
        let number = arena.free;
        if number != NONE {
            arena.used += 1;
            self.withdraw::<T>(number);
        }
        number
    }

    /// Gives a number back. What is kept there becomes a free item.
    #[inline]
    pub(super) fn release<T: Piece>(&mut self, number: u32) {
        self.item_mut::<T>(T::KIND, number).set_free(NONE, NONE);
        let arena = T::arena_mut(self);
        arena.used -= 1;
        if arena.fresh_count < FRESH {
            arena.fresh[arena.fresh_count] = number;
            arena.fresh_count += 1;
        } else {
            self.enlist::<T>(number);
        }
    }

    /// Puts all free numbers into the list, before memory is given back.
    pub(super) fn settle<T: Piece>(&mut self) {
        while let Some(last) = T::arena(self).fresh_count.checked_sub(1) {
            let arena = T::arena_mut(self);
            arena.fresh_count = last;
            let number = arena.fresh[last % FRESH];
            self.enlist::<T>(number);
        }
    }

    fn enlist<T: Piece>(&mut self, number: u32) {
        let next = core::mem::replace(&mut T::arena_mut(self).free, number);
        self.item_mut::<T>(T::KIND, number).set_free(NONE, next);
        if next != NONE {
            let (_, after) = self.item::<T>(T::KIND, next).free_links();
            self.item_mut::<T>(T::KIND, next).set_free(number, after);
        }
    }

    /// Takes a free number off the list of free ones, which may not be the first.
    pub(super) fn withdraw<T: Piece>(&mut self, number: u32) {
        let (before, after) = self.item::<T>(T::KIND, number).free_links();
        if before == NONE {
            T::arena_mut(self).free = after;
        } else {
            let (first, _) = self.item::<T>(T::KIND, before).free_links();
            self.item_mut::<T>(T::KIND, before).set_free(first, after);
        }
        if after != NONE {
            let (_, last) = self.item::<T>(T::KIND, after).free_links();
            self.item_mut::<T>(T::KIND, after).set_free(before, last);
        }
    }

    /// A free number, below the highest, for the item there to move to.
    pub(super) fn vacancy<T: Piece>(&mut self) -> u32 {
        let number = T::arena(self).free;
        self.withdraw::<T>(number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_moves_hashes_only_between_parent_and_child() {
        let mut arena = Arena::new();
        for high in 1u32..200 {
            arena.set_high(high * NUMBERS);
            let mut next = arena;
            next.set_high((high + 1) * NUMBERS);
            for hash in 0u32..5000 {
                let (before, after) = (arena.bucket(hash), next.bucket(hash));
                assert!(before < high && after <= high);
                assert!(before == after || (before == next.parent() && after == high));
            }
        }
    }
}
