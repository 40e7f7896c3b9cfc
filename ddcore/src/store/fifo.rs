// SPDX-License-Identifier: GPL-2.0

//! The order of a pool's pages, oldest first, and what happened to them.

use super::{Storage, Store, NONE};

/// Why a page left the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reason {
    /// It was read back.
    Hit,
    /// The guest flushed or overwrote it.
    Flush,
    /// Room was needed.
    Eviction,
}

/// The pages of one pool in one store.
///
/// After each operation `used = puts + moved_in - (hits + flushes + evictions + moved_out)`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct List {
    pub(super) oldest: u32,
    pub(super) newest: u32,
    /// Pages held now.
    pub used: u64,
    /// Pages inserted.
    pub puts: u64,
    /// Pages removed because they were read back.
    pub hits: u64,
    /// Pages removed because the guest flushed or overwrote them.
    pub flushes: u64,
    /// Pages removed to make room.
    pub evictions: u64,
    /// Pages that came from other pools.
    pub moved_in: u64,
    /// Pages that went to other pools.
    pub moved_out: u64,
}

impl List {
    /// Counts hits as flushes instead: the pages were taken, but of no use to the reader.
    pub fn spoil_hits(&mut self, pages: u64) {
        let pages = pages.min(self.hits);
        self.hits -= pages;
        self.flushes += pages;
    }

    /// Forgets what was counted, for a pool that begins anew. Refused while pages are held.
    pub fn reset(&mut self) -> bool {
        if self.used == 0 {
            *self = Self::default();
        }
        self.used == 0
    }

    /// Adds what another store counted for the same pool.
    pub fn merge(&mut self, other: &Self) {
        self.used += other.used;
        self.puts += other.puts;
        self.hits += other.hits;
        self.flushes += other.flushes;
        self.evictions += other.evictions;
        self.moved_in += other.moved_in;
        self.moved_out += other.moved_out;
    }

    pub(super) fn count(&mut self, reason: Reason, pages: u64) {
        let counter = match reason {
            Reason::Hit => &mut self.hits,
            Reason::Flush => &mut self.flushes,
            Reason::Eviction => &mut self.evictions,
        };
        *counter += pages;
    }
}

impl<S: Storage> Store<S> {
    pub(super) fn list_mut(&mut self, pool: u16) -> &mut List {
        &mut self.storage.lists_mut()[usize::from(pool)]
    }

    pub(super) fn push_newest(&mut self, slot: u32) {
        let pool = self.slot(slot).pool();
        let list = self.list_mut(pool);
        let before = list.newest;
        list.newest = slot;
        list.used += 1;
        if before == NONE {
            list.oldest = slot;
        } else {
            self.slot_mut(before).newer = slot;
        }
        let slot = self.slot_mut(slot);
        slot.older = before;
        slot.newer = NONE;
    }

    pub(super) fn unlink_fifo(&mut self, slot: u32) {
        let entry = self.slot(slot);
        let (pool, older, newer) = (entry.pool(), entry.older, entry.newer);
        self.set_newer(pool, older, newer);
        self.set_older(pool, newer, older);
        self.list_mut(pool).used -= 1;
    }

    pub(super) fn redirect_fifo(&mut self, from: u32, to: u32) {
        let entry = self.slot(from);
        let (pool, older, newer) = (entry.pool(), entry.older, entry.newer);
        self.set_newer(pool, older, to);
        self.set_older(pool, newer, to);
    }

    /// Moves a page to the newest end of another pool.
    pub(super) fn move_to(&mut self, slot: u32, pool: u16, stamp: u32) {
        let from = self.slot(slot).pool();
        self.unlink_fifo(slot);
        self.list_mut(from).moved_out += 1;
        let entry = self.slot_mut(slot);
        entry.set_pool(pool);
        entry.stamp = stamp;
        self.push_newest(slot);
        self.list_mut(pool).moved_in += 1;
    }

    fn set_newer(&mut self, pool: u16, slot: u32, newer: u32) {
        match slot {
            NONE => self.list_mut(pool).oldest = newer,
            slot => self.slot_mut(slot).newer = newer,
        }
    }

    fn set_older(&mut self, pool: u16, slot: u32, older: u32) {
        match slot {
            NONE => self.list_mut(pool).newest = older,
            slot => self.slot_mut(slot).older = older,
        }
    }
}
