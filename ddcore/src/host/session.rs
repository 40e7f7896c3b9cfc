// SPDX-License-Identifier: GPL-2.0-only

//! Interface between the engine and the owner of a session, which provides locks, memory and pools.

use super::cause::Cause;
use super::flush::FlushProgress;
use super::list::is_ssd;
use super::pressure::{Gauge, Reading};
use crate::account::Account;
use crate::index::{Hasher, Held, Index, Removed, Storage};
use crate::number::Number;
use crate::partition::Entity;
use crate::policy::Order;
use ddabi::answer::Eviction;
use ddabi::request::Run;

/// Binary logarithm of the largest number of shards.
pub const MAX_SHARD_BITS: u32 = 3;

/// Returns the binary logarithm of the number of shards for a VM with this number of vCPUs.
///
/// More shards make it less likely that vCPUs wait for each other. Fewer make larger groups of pages
/// that are looked up together, so that more cache misses overlap, and locks are taken less often.
pub const fn shard_bits(vcpus: u32) -> u32 {
    match vcpus {
        0 | 1 => 1,
        2 => 2,
        _ => MAX_SHARD_BITS,
    }
}

/// State of a session that the engine keeps beside the index.
#[derive(Debug)]
pub struct SessionState<N> {
    /// Pages of the memory tier in all shards.
    used: Account<N>,
    /// Pages of the SSD tier in all shards.
    ssd: Account<N>,
    /// The shard in which the next eviction begins.
    pub(super) rotor: N,
    /// When the gauges of the pools were last read.
    pub(super) reading: Reading<N>,
    /// The time, in milliseconds, until which no pages are promoted, because none could be.
    pub(super) promotion: N,
}

impl<N: Number> SessionState<N> {
    /// Creates the state of a session without pages.
    pub fn new() -> Self {
        Self {
            used: Account::new(),
            ssd: Account::new(),
            rotor: N::new(0),
            reading: Reading::new(),
            promotion: N::new(0),
        }
    }

    /// Returns the number of pages in the memory tier.
    pub fn used(&self) -> u64 {
        self.used.pages()
    }

    /// Returns the number of pages in the SSD tier.
    pub fn ssd(&self) -> u64 {
        self.ssd.pages()
    }
}

impl<N: Number> Default for SessionState<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// A tier of the host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TierKind {
    /// Memory.
    Memory,
    /// SSDs.
    Ssd,
}

/// A number of pages in each tier.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Count {
    /// Pages in the memory tier.
    pub memory: usize,
    /// Pages in the SSD tier.
    pub ssd: usize,
}

impl Count {
    /// Adds pages of a list.
    #[inline]
    pub fn add(&mut self, list: u16, pages: usize) {
        match is_ssd(list) {
            false => self.memory += pages,
            true => self.ssd += pages,
        }
    }

    /// Returns the number of pages in all tiers.
    #[inline]
    pub const fn total(&self) -> usize {
        self.memory + self.ssd
    }
}

/// One registration of a guest: an index in shards, each behind a lock, and pools.
///
/// The engine calls these functions without a lock, except [`Session::page`]. It never works on
/// two shards at once.
pub trait Session {
    /// The memory of a shard's index.
    type Storage: Storage;
    /// A number that processors share.
    type Number: Number;
    /// A page, which the index knows by a handle. It is freed when it is dropped.
    type Page;

    /// Returns the binary logarithm of the number of shards, at most [`MAX_SHARD_BITS`], which does
    /// not change.
    fn shard_bits(&self) -> u32;

    /// Returns the number of shards.
    #[inline]
    fn shards(&self) -> usize {
        1 << self.shard_bits()
    }

    /// Calls `work` with the index of a shard under its lock. Memory that the index no longer needs
    /// may be freed afterwards.
    fn with<R>(&self, shard: usize, work: impl FnOnce(&mut Index<Self::Storage>) -> R) -> R;

    /// Calls `work` with the index of a shard under its lock, and with memory for `parts` more
    /// parts. Returns `None` without calling it if there is no memory.
    fn with_room<R>(
        &self,
        shard: usize,
        parts: usize,
        work: impl FnOnce(&mut Index<Self::Storage>) -> R,
    ) -> Option<R>;

    /// Turns an entry that left the index into its page. This is called under the shard's lock,
    /// and neither allocates nor frees.
    fn page(&self, removed: Removed) -> Option<Self::Page>;

    /// Returns another owner of a page that is in the index. This is called under the shard's lock,
    /// and neither allocates nor frees. An owner without an SSD tier returns `None`.
    fn share_page(&self, held: Held<'_>) -> Option<Self::Page>;

    /// Returns the hasher of the index's keys.
    fn hasher(&self) -> &Hasher;

    /// Returns the engine's state of the session.
    fn state(&self) -> &SessionState<Self::Number>;

    /// Releases the room of pages that are gone in the memory tier. Pages of the SSD tier release
    /// theirs when they are dropped.
    fn release(&self, pages: u64);

    /// Moves pages that a pool puts to places of the SSD tier: as many from the first on as there are
    /// consecutive places for. Each of them becomes the page of its place. Returns their number, and
    /// the stamp by which all of them are to enter the index; or `None` if there is no place.
    ///
    /// `run` names the pages. An owner without an SSD tier returns `None`.
    fn put_on_ssd(&self, run: &Run, pages: &mut [Option<Self::Page>]) -> Option<(usize, u64)>;

    /// Replaces the pages of a run, which are in the SSD tier, by pages of memory with their data, or
    /// by none if the data is lost. Returns `false` if the pages cannot be read now. May sleep.
    ///
    /// An owner without an SSD tier returns `false`.
    fn read_from_ssd(&self, run: &Run, pages: &mut [Option<Self::Page>]) -> bool;

    /// Returns the number of pages for which a pool has places in the SSD tier.
    fn places(&self, pool: u32) -> u64;

    /// Returns the number of pages for which all pools have places in the SSD tier.
    fn all_places(&self) -> u64 {
        (0..self.pool_count()).map(|pool| self.places(pool)).sum()
    }

    /// Returns the time from which the ages of the session's pages are computed.
    fn now(&self) -> u64;

    /// Returns the stamp of pages that come now.
    fn stamp(&self, pages: u64) -> u64;

    /// Returns a bound that is above the numbers of all pools.
    fn pool_count(&self) -> u32;

    /// Returns whether there is a pool with this number that was created and not destroyed.
    fn is_live(&self, pool: u32) -> bool;

    /// Returns the weight of a pool when pages of the memory tier are divided. A destroyed pool has
    /// weight 0, but may have pages of calls that were in progress.
    fn share(&self, pool: u32) -> u32;

    /// Returns the weight of a pool when pages of the SSD tier are divided. If it is above 0, the
    /// pages of the pool go there, when they leave the memory tier or when they are put.
    fn ssd_share(&self, pool: u32) -> u32;

    /// Returns the order in which the pages of a pool are evicted, also of a destroyed one, or
    /// `None` if there never was such a pool.
    fn order(&self, pool: u32) -> Option<Order>;

    /// Returns the gauge of a pool, if there ever was such a pool.
    fn gauge(&self, pool: u32) -> Option<&Gauge<Self::Number>>;

    /// Calls `work` with memory for one entity for each pool, under the lock of the session's
    /// evictions. Memory reclaim takes this lock, so that its holder must not allocate.
    fn with_entities<R>(&self, work: impl FnOnce(&mut [Entity]) -> R) -> R;

    /// Like [`Session::with_entities`], but returns `None` without calling `work` if another task
    /// evicts pages of the session.
    fn try_with_entities<R>(&self, work: impl FnOnce(&mut [Entity]) -> R) -> Option<R>;

    /// Keeps notices of evictions for the guest.
    fn announce(&self, notices: &[Eviction]);

    /// Called after pages of a pool were evicted from a tier, with their number, which is above 0. No
    /// lock of the session is held. An owner that does not report evictions does nothing.
    fn tell_evicted(&self, _pool: u32, _tier: TierKind, _pages: u64, _cause: Cause) {}

    /// Called after pages of a pool moved to a tier, with their number, which is above 0. No lock of
    /// the session is held.
    fn tell_relocated(&self, _pool: u32, _to: TierKind, _pages: u64) {}

    /// Takes the progress of the last flush, if it was not finished.
    fn take_flush_progress(&self) -> Option<FlushProgress>;

    /// Saves the progress of an unfinished flush for the next call.
    fn save_flush_progress(&self, progress: FlushProgress);

    /// Lets the scheduler run other tasks. Called between two steps of a long operation.
    fn cond_resched(&self);

    /// Returns whether the calling task is being killed, in which case long operations end early.
    fn is_dying(&self) -> bool;

    /// Returns whether the owner is going away, in which case pages need not move any more. Guests may
    /// still call.
    fn is_leaving(&self) -> bool {
        false
    }

    /// Returns the number of pages in the memory tier.
    #[inline]
    fn used(&self) -> u64 {
        self.state().used()
    }

    /// Returns whether no page is held in any tier.
    #[inline]
    fn is_empty(&self) -> bool {
        self.state().used() == 0 && self.state().ssd() == 0
    }

    /// Counts pages that were stored; the room of those in the memory tier was reserved before. The
    /// borrow proves that the caller holds the shard's lock, so that no other call can take them out
    /// before they are counted.
    #[inline]
    fn add_used(&self, pages: &Count, locked: &mut Index<Self::Storage>) {
        if pages.memory > 0 {
            self.state().used.add(pages.memory as u64, locked);
        }
        if pages.ssd > 0 {
            self.state().ssd.add(pages.ssd as u64, locked);
        }
    }

    /// Subtracts pages that are gone, and releases their room.
    #[inline]
    fn sub_used(&self, pages: &Count) {
        if pages.memory > 0 {
            self.state().used.subtract(pages.memory as u64);
            self.release(pages.memory as u64);
        }
        if pages.ssd > 0 {
            self.state().ssd.subtract(pages.ssd as u64);
        }
    }
}
