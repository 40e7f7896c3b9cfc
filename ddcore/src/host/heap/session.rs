// SPDX-License-Identifier: GPL-2.0-only

//! A registration of a guest.

use super::pool::{Pool, Settings};
use super::{Lock, Owner, Tier};
use crate::clock::Clock;
use crate::host::cause::Cause;
use crate::host::list::{all_lists, LISTS};
use crate::host::pressure::Gauge;
use crate::host::session::{self, SessionState, TierKind};
use crate::host::steps::Unfinished;
use crate::index::{Hasher, Heap, Held, Index, List, Removed};
use crate::partition::Entity;
use crate::policy::Order;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use ddabi::answer::Eviction;
use ddabi::pool::SsdAdmit;
use ddabi::request::Run;

/// Maximum number of places that an operation trims, as in the kernel module.
const TRIM_STEPS: u32 = 128;

/// One registration of a guest: an index in shards, and pools.
pub struct Session<O: Owner> {
    /// State of the owner.
    pub own: O::Session,
    /// The clock with which pages are stamped.
    pub clock: Clock<AtomicU64>,
    tier: Arc<Tier>,
    hasher: Hasher,
    shard_bits: u32,
    shards: Vec<O::Lock<Index<Heap>>>,
    state: SessionState<AtomicU64>,
    pools: Vec<Pool<O::Lock<Settings>>>,
    /// The work that calls have left unfinished.
    unfinished: O::Lock<Unfinished>,
    /// Memory for computing entitlements, one entity for each pool.
    entities: O::Lock<Vec<Entity>>,
}

impl<O: Owner> Session<O> {
    /// Creates a session without pools.
    pub fn new(tier: Arc<Tier>, hasher: Hasher, own: O::Session) -> Self {
        Self::with_shards(O::SHARD_BITS, tier, hasher, own)
    }

    /// Creates a session without pools, with `1 << bits` shards.
    pub fn with_shards(bits: u32, tier: Arc<Tier>, hasher: Hasher, own: O::Session) -> Self {
        let shard = |_| O::Lock::new(Index::new(Heap::default(), hasher));
        Self {
            own,
            clock: Clock::new(),
            tier,
            hasher,
            shard_bits: bits,
            shards: (0..1 << bits).map(shard).collect(),
            state: SessionState::new(),
            pools: Vec::new(),
            unfinished: O::Lock::new(Unfinished::new()),
            entities: O::Lock::new(Vec::new()),
        }
    }

    /// Returns the memory tier.
    #[inline]
    pub fn tier(&self) -> &Tier {
        &self.tier
    }

    /// Adds a slot for a pool. Returns its number.
    pub fn add_pool(&mut self) -> u32 {
        for shard in &mut self.shards {
            let lists = &mut shard.get_mut().storage_mut().lists;
            lists.resize(lists.len() + LISTS, List::default());
        }
        self.pools.push(Pool {
            settings: O::Lock::new(Settings::default()),
            gauge: Gauge::new(),
        });
        self.entities.get_mut().push(Entity::default());
        self.pools.len() as u32 - 1
    }

    /// Creates a pool in its slot, or changes its weight and eviction order.
    pub fn set_pool(&self, pool: u32, share: u32, order: Order) {
        *self.pools[pool as usize].settings.lock() = Settings {
            share: Some(share),
            order: Some(order),
        };
    }

    /// Changes the weight of a pool.
    pub fn set_share(&self, pool: u32, share: u32) {
        self.pools[pool as usize].settings.lock().share = Some(share);
    }

    /// Destroys a pool. Its pages stay until they are evicted or freed.
    pub fn end_pool(&self, pool: u32) {
        self.pools[pool as usize].settings.lock().share = None;
    }

    /// Resets the counters of a pool, which must have no pages.
    pub fn reset_counters(&self, pool: u32) {
        for shard in &self.shards {
            for list in all_lists(pool) {
                let mut index = shard.lock();
                let list = usize::from(list);
                let is_reset = index.storage_mut().lists[list].reset();
                assert!(is_reset, "the pool has no pages");
            }
        }
    }

    fn settings(&self, pool: u32) -> Settings {
        let pool = self.pools.get(pool as usize);
        pool.map_or_else(Settings::default, |pool| *pool.settings.lock())
    }
}

impl<O: Owner> session::Session for Session<O> {
    type Storage = Heap;
    type Number = AtomicU64;
    type Page = O::Page;

    #[inline]
    fn shard_bits(&self) -> u32 {
        self.shard_bits
    }

    #[inline]
    fn with<R>(&self, shard: usize, work: impl FnOnce(&mut Index<Heap>) -> R) -> R {
        let mut index = self.shards[shard].lock();
        let result = work(&mut index);
        if index.is_slack() {
            index.trim_and_free(TRIM_STEPS);
        }
        result
    }

    #[inline]
    fn with_room<R>(
        &self,
        shard: usize,
        parts: usize,
        work: impl FnOnce(&mut Index<Heap>) -> R,
    ) -> Option<R> {
        let mut index = self.shards[shard].lock();
        if !O::has_index_memory(self) && index.lack(parts).is_some() {
            return None;
        }
        index.supply(parts);
        Some(work(&mut index))
    }

    #[inline]
    fn page(&self, removed: Removed) -> Option<O::Page> {
        O::page(self, removed)
    }

    #[inline]
    fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    #[inline]
    fn state(&self) -> &SessionState<AtomicU64> {
        &self.state
    }

    #[inline]
    fn release(&self, pages: u64) {
        self.tier.release(pages);
    }

    #[inline]
    fn now(&self) -> u64 {
        O::now(self)
    }

    fn share_page(&self, held: Held<'_>) -> Option<O::Page> {
        O::share_page(self, held)
    }

    fn put_on_ssd(
        &self,
        run: &Run,
        pages: &mut [Option<O::Page>],
        counted: usize,
    ) -> Option<(usize, u64)> {
        O::put_on_ssd(self, run, pages, counted)
    }

    fn read_from_ssd(&self, run: &Run, pages: &mut [Option<O::Page>]) -> bool {
        O::read_from_ssd(self, run, pages)
    }

    fn close_segment(&self, pool: u32, stamp: Option<u64>) {
        O::close_segment(self, pool, stamp);
    }

    fn places(&self, pool: u32) -> u64 {
        O::places(self, pool)
    }

    #[inline]
    fn stamp(&self, pages: u64) -> u64 {
        O::stamp(self, pages)
    }

    fn pool_count(&self) -> u32 {
        self.pools.len() as u32
    }

    fn is_live(&self, pool: u32) -> bool {
        self.settings(pool).share.is_some()
    }

    fn share(&self, pool: u32) -> u32 {
        self.settings(pool).share.unwrap_or(0)
    }

    #[inline]
    fn ssd_share(&self, pool: u32) -> u32 {
        O::ssd_share(self, pool)
    }

    #[inline]
    fn ssd_admit(&self, pool: u32) -> SsdAdmit {
        O::ssd_admit(self, pool)
    }

    fn order(&self, pool: u32) -> Option<Order> {
        self.settings(pool).order
    }

    fn gauge(&self, pool: u32) -> Option<&Gauge<AtomicU64>> {
        Some(&self.pools.get(pool as usize)?.gauge)
    }

    fn with_entities<R>(&self, work: impl FnOnce(&mut [Entity]) -> R) -> R {
        work(&mut self.entities.lock())
    }

    fn try_with_entities<R>(&self, work: impl FnOnce(&mut [Entity]) -> R) -> Option<R> {
        Some(work(&mut self.entities.try_lock()?))
    }

    fn announce(&self, notices: &[Eviction]) {
        O::announce(self, notices);
    }

    fn tell_evicted(&self, pool: u32, tier: TierKind, pages: u64, cause: Cause) {
        O::tell_evicted(self, pool, tier, pages, cause);
    }

    fn tell_unproven(&self, pool: u32, pages: u64) {
        O::tell_unproven(self, pool, pages);
    }

    fn tell_relocated(&self, pool: u32, to: TierKind, pages: u64) {
        O::tell_relocated(self, pool, to, pages);
    }

    fn with_unfinished<R>(&self, work: impl FnOnce(&mut Unfinished) -> R) -> R {
        work(&mut self.unfinished.lock())
    }

    fn cond_resched(&self) {}

    fn is_dying(&self) -> bool {
        false
    }
}
