// SPDX-License-Identifier: GPL-2.0

//! The seam between the engine and the owner of a session: its locks, its memory, its pools.

use super::flush::Rest;
use super::pressure::{Gauge, Reading};
use crate::account::Account;
use crate::number::Number;
use crate::policy::Order;
use crate::store::{Hasher, Removed, Storage, Store};
use ddabi::answer::Eviction;

/// What the engine keeps of a session beside its index.
#[derive(Debug)]
pub struct Ledger<N> {
    /// Pages in all shards.
    used: Account<N>,
    /// The shard that the next eviction begins with.
    pub(super) rotor: N,
    /// When the gauges of the pools were last read.
    pub(super) reading: Reading<N>,
}

impl<N: Number> Ledger<N> {
    /// Makes the ledger of a session without pages.
    pub fn new() -> Self {
        Self {
            used: Account::new(),
            rotor: N::new(0),
            reading: Reading::new(),
        }
    }

    /// Returns the number of pages held.
    pub fn used(&self) -> u64 {
        self.used.pages()
    }
}

impl<N: Number> Default for Ledger<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// One registration of a guest: an index in shards, each behind a lock, and pools.
///
/// The engine calls these functions without a lock, save for [`Session::page`]. It never works on
/// two shards at once.
pub trait Session {
    /// The memory of a shard's index.
    type Storage: Storage;
    /// A number that processors share.
    type Number: Number;
    /// What the handle of a page stands for. Dropping it frees the page.
    type Page;

    /// Binary logarithm of the number of shards.
    const SHARD_BITS: u32;

    /// The number of shards.
    const SHARDS: usize = 1 << Self::SHARD_BITS;

    /// Works on the index of a shard under its lock. Memory that the index no longer needs may be
    /// freed.
    fn with<R>(&self, shard: usize, work: impl FnOnce(&mut Store<Self::Storage>) -> R) -> R;

    /// Works on the index of a shard under its lock, with memory for `parts` more parts; `None` if
    /// there is no memory.
    fn with_room<R>(
        &self,
        shard: usize,
        parts: usize,
        work: impl FnOnce(&mut Store<Self::Storage>) -> R,
    ) -> Option<R>;

    /// Turns an entry that left the index into its page. This is called under the shard's lock,
    /// and neither allocates nor frees.
    fn page(&self, removed: Removed) -> Option<Self::Page>;

    /// Returns the hasher of the index's keys.
    fn hasher(&self) -> &Hasher;

    /// Returns what the engine keeps of the session.
    fn ledger(&self) -> &Ledger<Self::Number>;

    /// Gives the room of pages that are gone back to the tier.
    ///
    /// The pages of a session are of one tier. With a second one this function,
    /// [`Bin`](super::bin::Bin) and the ledger have to count the pages of each.
    fn release(&self, pages: u64);

    /// Returns the time by which the ages of the session's pages are told.
    fn now(&self) -> u64;

    /// Returns the stamp of pages that come now.
    fn stamp(&self, pages: u64) -> u64;

    /// Returns a number that is above those of all pools.
    fn pool_count(&self) -> u32;

    /// Returns whether there is a pool with this number, which has begun and not ended.
    fn is_live(&self, pool: u32) -> bool;

    /// Returns the weight of a pool when pages are divided. A pool that has ended has none, but may
    /// have pages of calls that were under way.
    fn share(&self, pool: u32) -> u32;

    /// Returns the order in which the pages of a pool leave, also of one that has ended; `None` if
    /// there never was such a pool.
    fn order(&self, pool: u32) -> Option<Order>;

    /// Returns the gauge of a pool, if there ever was such a pool.
    fn gauge(&self, pool: u32) -> Option<&Gauge<Self::Number>>;

    /// Keeps notices of evictions for the guest.
    fn announce(&self, notices: &[Eviction]);

    /// Takes what the last flush left to the next one.
    fn take_rest(&self) -> Option<Rest>;

    /// Leaves the rest of a flush to the next one.
    fn leave_rest(&self, rest: Rest);

    /// Lets the scheduler act, between two steps of a long operation.
    fn breathe(&self);

    /// Returns whether the calling task is being killed, so that its long operations are to end
    /// early.
    fn is_dying(&self) -> bool;

    /// Returns the number of pages held.
    #[inline]
    fn used(&self) -> u64 {
        self.ledger().used()
    }

    /// Books pages that were stored, before another call can take them out again: the room for
    /// them was reserved before. The caller holds the shard's lock as long as it borrows the
    /// index.
    #[inline]
    fn came(&self, pages: usize, locked: &mut Store<Self::Storage>) {
        self.ledger().used.came(pages as u64, locked);
    }

    /// Books pages that are gone.
    #[inline]
    fn went(&self, pages: usize) {
        if pages > 0 {
            self.ledger().used.went(pages as u64);
            self.release(pages as u64);
        }
    }
}
