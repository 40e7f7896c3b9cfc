// SPDX-License-Identifier: GPL-2.0-only

//! Interface between the engine and the owner of a session, which provides locks, memory and pools.

use super::cause::Cause;
use super::list::is_ssd;
use super::node::Nodes;
use super::pressure::{Gauge, Reading};
use super::steps::Unfinished;
use crate::account::Account;
use crate::index::{Hasher, Held, Index, Removed, Storage};
use crate::number::Number;
use crate::partition::Entity;
use crate::policy::Order;
use ddabi::answer::Eviction;
use ddabi::pool::SsdAdmit;
use ddabi::request::Run;

/// Binary logarithm of the largest number of shards.
pub const MAX_SHARD_BITS: u32 = 3;

/// Returns the binary logarithm of the number of shards for a VM with this number of vCPUs.
///
/// With more shards, vCPUs are less likely to wait for each other. With fewer shards, larger groups
/// of pages are looked up together, so that more cache misses overlap and locks are taken less
/// often.
pub const fn shard_bits(vcpus: u32) -> u32 {
    match vcpus {
        0 | 1 => 1,
        2 => 2,
        _ => MAX_SHARD_BITS,
    }
}

/// State of a session that the engine keeps in addition to the index.
#[derive(Debug)]
pub struct SessionState<N> {
    /// Number of pages of the memory tier in all shards.
    used: Account<N>,
    /// Number of pages of the SSD tier in all shards.
    ssd: Account<N>,
    /// The shard in which the next eviction begins.
    pub(super) next_shard: N,
    /// Time at which the gauges of the pools were last computed.
    pub(super) reading: Reading<N>,
    /// Time, in milliseconds, until which no pages are promoted because none could be promoted
    /// before.
    pub(super) promotion: N,
    /// The NUMA nodes of its pages in the memory tier.
    pub(super) nodes: Nodes<N>,
}

impl<N: Number> SessionState<N> {
    /// Creates the state of a session without pages.
    pub fn new() -> Self {
        Self {
            used: Account::new(),
            ssd: Account::new(),
            next_shard: N::new(0),
            reading: Reading::new(),
            promotion: N::new(0),
            nodes: Nodes::new(),
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

/// Numbers of pages in each tier.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Count {
    /// Number of pages in the memory tier.
    pub memory: usize,
    /// Number of pages in the SSD tier.
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

/// One registration of a guest: pools, and an index divided into shards, each with its own lock.
///
/// The engine holds no lock when it calls these functions, except [`Session::page`],
/// [`Session::share_page`], [`Session::gauge`], [`Session::state`] and [`Session::is_dying`], which
/// it also calls under the lock of a shard. It never accesses two shards at once.
pub trait Session {
    /// The memory of a shard's index.
    type Storage: Storage;
    /// A number that processors share.
    type Number: Number;
    /// A page, to which the index refers by a handle. It is freed when it is dropped.
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

    /// Converts an entry that was removed from the index to its page. This is called under the
    /// shard's lock, and must neither allocate nor free memory.
    fn page(&self, removed: Removed) -> Option<Self::Page>;

    /// Returns an additional owner of a page that is in the index. This is called under the shard's
    /// lock, and must neither allocate nor free memory. An implementation without an SSD tier
    /// returns `None`.
    fn share_page(&self, held: Held<'_>) -> Option<Self::Page>;

    /// Returns the hasher of the index's keys.
    fn hasher(&self) -> &Hasher;

    /// Returns the engine's state of the session.
    fn state(&self) -> &SessionState<Self::Number>;

    /// Releases the room of pages that were removed from the memory tier. Pages of the SSD tier
    /// release their places when they are dropped.
    fn release(&self, pages: u64);

    /// Moves pages of a pool to places of the SSD tier: beginning with the first, as many as there
    /// are consecutive places. Each of them is replaced by the page of its place. Returns their
    /// number, and the stamp with which all of them are to enter the index, or `None` if there is
    /// no place.
    ///
    /// `run` has the keys of the pages. `counted` pages are counted for the write budget of the
    /// device: a run that is stored as a whole, in several steps, is counted in the first one.
    /// An implementation without an SSD tier returns `None`.
    fn put_on_ssd(
        &self,
        run: &Run,
        pages: &mut [Option<Self::Page>],
        counted: usize,
    ) -> Option<(usize, u64)>;

    /// Replaces the pages of a run, which are in the SSD tier, by pages of memory with their data,
    /// or by none if the data is lost. Returns `false` if the pages cannot be read now. May sleep.
    ///
    /// An implementation without an SSD tier returns `false`.
    fn read_from_ssd(&self, run: &Run, pages: &mut [Option<Self::Page>]) -> bool;

    /// Closes the segment of the SSD tier that a pool fills, if it has this stamp or if `None` is
    /// given. An implementation without an SSD tier does nothing.
    fn close_segment(&self, pool: u32, stamp: Option<u64>);

    /// Returns the number of pages for which a pool has places in the SSD tier.
    fn places(&self, pool: u32) -> u64;

    /// Returns the number of pages for which all pools have places in the SSD tier.
    fn all_places(&self) -> u64 {
        (0..self.pool_count()).map(|pool| self.places(pool)).sum()
    }

    /// Returns the time from which the ages of the session's pages are computed.
    fn now(&self) -> u64;

    /// Returns the stamp of pages that are put now.
    fn stamp(&self, pages: u64) -> u64;

    /// Returns a number that is above the numbers of all pools.
    fn pool_count(&self) -> u32;

    /// Returns whether the pool with this number was created and not destroyed.
    fn is_live(&self, pool: u32) -> bool;

    /// Returns the weight of a pool with which the memory tier is divided. A destroyed pool has
    /// weight 0, but may have pages of calls that were in progress.
    fn share(&self, pool: u32) -> u32;

    /// Returns the weight of a pool with which the SSD tier is divided. If it is above 0, pages of
    /// the pool are moved to the SSD tier when they leave the memory tier, or put there directly.
    fn ssd_share(&self, pool: u32) -> u32;

    /// Returns which pages of a pool go to the SSD tier.
    fn ssd_admit(&self, pool: u32) -> SsdAdmit;

    /// Returns the order in which the pages of a pool, which may be destroyed, are evicted, or
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

    /// Queues eviction notices for the guest.
    fn announce(&self, notices: &[Eviction]);

    /// Called after pages of a pool were evicted from a tier, with their number, which is above 0.
    /// No lock of the session is held. An implementation that does not report evictions does
    /// nothing.
    fn tell_evicted(&self, _pool: u32, _tier: TierKind, _pages: u64, _cause: Cause) {}

    /// Called after pages of a pool were evicted from the memory tier because they may not go to
    /// the SSD tier ([`Session::ssd_admit`]), with their number, which is above 0.
    /// [`Session::tell_evicted`] is called for the same pages. No lock of the session is held.
    fn tell_unproven(&self, _pool: u32, _pages: u64) {}

    /// Called after pages of a pool moved to a tier, with their number, which is above 0. No lock
    /// of the session is held.
    fn tell_relocated(&self, _pool: u32, _to: TierKind, _pages: u64) {}

    /// Calls `work` with the unfinished work of the session's calls, under its lock.
    fn with_unfinished<R>(&self, work: impl FnOnce(&mut Unfinished) -> R) -> R;

    /// Lets the scheduler run other tasks. Called between two steps of a long operation.
    fn cond_resched(&self);

    /// Returns whether the calling task is being killed, in which case long operations end early.
    fn is_dying(&self) -> bool;

    /// Returns whether the owner is being unloaded, in which case pages no longer need to be moved.
    /// Guests may still make calls.
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

    /// Counts pages that were stored. Room for those in the memory tier was reserved before. The
    /// borrow proves that the caller holds the shard's lock, so that no other call can take the
    /// pages out before they are counted.
    #[inline]
    fn add_used(&self, pages: &Count, locked: &mut Index<Self::Storage>) {
        if pages.memory > 0 {
            self.state().used.add(pages.memory as u64, locked);
        }
        if pages.ssd > 0 {
            self.state().ssd.add(pages.ssd as u64, locked);
        }
    }

    /// Subtracts pages that were removed, and releases their room.
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
