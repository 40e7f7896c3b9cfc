// SPDX-License-Identifier: GPL-2.0-only

//! The ends of the cohorts of a list, and the counters of its pages. The age of a block is that of
//! the last put into it.

use super::{Index, Storage};

/// Reason why a page left the index.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// It was read back.
    Hit,
    /// The guest flushed or overwrote it.
    Flush,
    /// Its memory was needed.
    Eviction,
    /// It moved to another tier, where it has another handle.
    Relocation,
}

/// The pages of one list in one index.
///
/// After each operation `used = puts + moved_in + relocated_in - (hits + flushes + evictions +
/// moved_out + relocated_out)`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct List {
    /// Numbers of the oldest and the newest cohort.
    pub(super) oldest: u32,
    pub(super) newest: u32,
    /// Number of slots for further blocks in the newest cohort.
    pub(super) left: u32,
    /// Number of pages in the list now.
    pub used: u64,
    /// Number of pages that were inserted.
    pub puts: u64,
    /// Number of pages that were removed because they were read back.
    pub hits: u64,
    /// Number of pages that were read back and stayed in the list.
    pub hits_retained: u64,
    /// Number of pages that were removed because the guest flushed or overwrote them.
    pub flushes: u64,
    /// Number of pages that were removed to make room.
    pub evictions: u64,
    /// Number of pages that were moved from other lists to this one.
    pub moved_in: u64,
    /// Number of pages that were moved from this list to others.
    pub moved_out: u64,
    /// Number of pages that were moved from another tier to this list.
    pub relocated_in: u64,
    /// Number of pages that were moved from this list to another tier.
    pub relocated_out: u64,
}

impl List {
    /// Counts hits as flushes, because their pages were not delivered to the reader.
    pub fn spoil_hits(&mut self, pages: u64) {
        let pages = pages.min(self.hits);
        self.hits -= pages;
        self.flushes += pages;
    }

    /// Resets the counters of a list that is to be reused. Returns `false` and changes nothing
    /// while the list has pages.
    pub fn reset(&mut self) -> bool {
        if self.used == 0 {
            *self = Self::default();
        }
        self.used == 0
    }

    /// Adds the counters of the same list in another index.
    pub fn merge(&mut self, other: &Self) {
        self.used += other.used;
        self.puts += other.puts;
        self.hits += other.hits;
        self.hits_retained += other.hits_retained;
        self.flushes += other.flushes;
        self.evictions += other.evictions;
        self.moved_in += other.moved_in;
        self.moved_out += other.moved_out;
        self.relocated_in += other.relocated_in;
        self.relocated_out += other.relocated_out;
    }

    pub(super) fn count(&mut self, reason: Reason, pages: u64) {
        let counter = match reason {
            Reason::Hit => &mut self.hits,
            Reason::Flush => &mut self.flushes,
            Reason::Eviction => &mut self.evictions,
            Reason::Relocation => &mut self.relocated_out,
        };
        *counter += pages;
    }
}

/// Pages that were added to a list, or removed from it, and are not counted yet. Consecutive pages
/// of an operation mostly belong to one list and are counted together.
#[derive(Default)]
pub(super) struct Sum {
    list: u16,
    pages: u64,
}

impl Sum {
    /// Creates a sum of pages of one list.
    pub(super) const fn new(list: u16, pages: u64) -> Self {
        Self { list, pages }
    }

    /// Adds a page. If it belongs to another list, returns the pages of the previous list, which
    /// the caller has to count.
    #[inline]
    pub(super) fn add(&mut self, list: u16) -> Option<Self> {
        if list == self.list {
            self.pages += 1;
            return None;
        }
        Some(core::mem::replace(self, Self::new(list, 1)))
    }
}

impl<S: Storage> Index<S> {
    /// Counts pages that were inserted.
    pub(super) fn added(&mut self, Sum { list, pages }: Sum) {
        if pages > 0 {
            self.pages += pages;
            let list = self.list_mut(list);
            list.used += pages;
            list.puts += pages;
        }
    }

    /// Counts pages that were removed.
    pub(super) fn removed(&mut self, Sum { list, pages }: Sum, reason: Reason) {
        if pages > 0 {
            self.pages -= pages;
            let list = self.list_mut(list);
            list.used -= pages;
            list.count(reason, pages);
        }
    }

    #[inline]
    pub(super) fn list_mut(&mut self, list: u16) -> &mut List {
        &mut self.storage.lists_mut()[usize::from(list)]
    }

    /// Moves a block to the newest end of a list, which may be its own. The caller has checked that
    /// there is room for a cohort.
    pub(super) fn renew(&mut self, number: u32, owner: (u16, u64)) {
        let position = self.block(number).position();
        self.leave(position);
        let position = self.join(number, owner);
        self.block_mut(number).set_position(position);
    }

    /// Moves a block with its pages to another list.
    pub(super) fn move_to(&mut self, number: u32, owner: (u16, u64)) {
        let block = self.block(number);
        let (from, pages) = (self.list_of_block(block), u64::from(block.pages()));
        self.renew(number, owner);
        let list = self.list_mut(from);
        list.used -= pages;
        list.moved_out += pages;
        let list = self.list_mut(owner.0);
        list.used += pages;
        list.moved_in += pages;
    }
}
