// SPDX-License-Identifier: GPL-2.0-only

//! Allocation of item numbers of one kind: the number that was freed last is reused first, and new
//! numbers are allocated in rising order.

use super::segment::{Item, Kind};
use super::spread::Spread;
use super::{Index, Storage, NONE};

/// The numbers of one kind of item. Number 0 is never used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arena {
    /// All numbers that have ever been used are below this one.
    pub(super) high: u32,
    /// Number of numbers in use.
    pub(super) used: u32,
    /// First number in the list of free numbers, all below `high`.
    free: u32,
    /// The buckets of the hash table of these items, if they have one.
    pub(super) spread: Spread,
    /// The numbers freed last, which are reused first. They are not in the list of free numbers.
    fresh: [u32; FRESH],
    fresh_count: usize,
}

/// Number of item numbers for each bucket.
pub(super) const NUMBERS: u32 = 2;

/// Number of free numbers that are kept outside of the list of free numbers, so that most
/// allocations and releases do not access the list.
const FRESH: usize = 64;

impl Arena {
    pub(super) const fn new() -> Self {
        Self {
            high: 1,
            used: 0,
            free: NONE,
            spread: Spread::new(1),
            fresh: [NONE; FRESH],
            fresh_count: 0,
        }
    }

    /// Sets the number below which all numbers have been used.
    pub(super) fn set_high(&mut self, high: u32) {
        self.high = high;
        self.spread = Spread::new(high.div_ceil(NUMBERS));
    }

    /// Returns whether enough numbers are unused that memory should be released.
    pub(super) const fn is_slack(&self) -> bool {
        is_slack(self.used, self.high - 1)
    }

    /// Returns the number of segments of `each` items that are needed.
    pub(super) const fn segments(&self, each: u32) -> usize {
        self.segments_of(self.high, each)
    }

    /// Returns the number of segments of `each` buckets that are needed.
    pub(super) const fn bucket_segments(&self, each: u32) -> usize {
        self.segments_of(self.spread.buckets(), each)
    }

    const fn segments_of(&self, items: u32, each: u32) -> usize {
        if self.high == 1 {
            0
        } else {
            items.div_ceil(each) as usize
        }
    }
}

/// Returns whether enough of `all` places are unused that memory should be released.
pub(super) const fn is_slack(used: u32, all: u32) -> bool {
    /// Number of places that may stay unused, in addition to one for each [`SHARE`] used ones, so
    /// that an index of constant size does not move its items back and forth.
    const SLACK: u32 = 64;
    const SHARE: u32 = 16;
    let unused = all.saturating_sub(used);
    if used > 0 {
        unused > SLACK + used / SHARE
    } else {
        unused > 0
    }
}

/// An item whose numbers an arena allocates.
pub(super) trait Piece: Item {
    const KIND: Kind;

    /// The largest number of items.
    const LIMIT: usize;

    fn arena<S>(index: &Index<S>) -> &Arena;

    fn arena_mut<S>(index: &mut Index<S>) -> &mut Arena;

    /// Returns the previous and the next item of a free item in the list of free numbers.
    fn free_links(&self) -> (u32, u32);

    /// Makes the item a free one between two others in the list of free numbers.
    fn set_free(&mut self, before: u32, after: u32);
}

impl<S: Storage> Index<S> {
    /// Returns the number of items that can be allocated before another segment is needed.
    pub(super) fn room<T: Piece>(&self) -> usize {
        let capacity = self.capacity::<T>(T::KIND).min(T::LIMIT);
        capacity.saturating_sub(1 + T::arena(self).used as usize)
    }

    /// Allocates a free number. Returns [`NONE`] if there is none, so that a new number must be
    /// used.
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

    /// Frees a number, and makes its item a free one.
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

    /// Moves all free numbers to the list, before memory is released.
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

    /// Removes any free number from the list of free numbers.
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

    /// Allocates a free number below the highest one, to which an item can move.
    pub(super) fn vacancy<T: Piece>(&mut self) -> u32 {
        let number = T::arena(self).free;
        self.withdraw::<T>(number);
        number
    }
}
