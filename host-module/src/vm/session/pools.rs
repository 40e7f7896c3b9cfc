// SPDX-License-Identifier: GPL-2.0-only

//! Creation, change and destruction of the pools of a session.

use super::Session;
use crate::ssd::holding::Holding;
use crate::ssd::log::Log;
use crate::vm::charge::charged;
use crate::vm::emptying::empty_pool;
use crate::vm::pool::Pool;
use ddabi::hypercall::Status;
use ddabi::name::Name;
use ddabi::pool::{DEFAULT_POOL, MAX_POOLS};
use ddcore::host::list::{all_lists, LISTS};
use ddcore::host::Session as _;
use ddcore::partition::{part, Entity};
use ddcore::request::Settings;
use kernel::prelude::*;
use kernel::sync::atomic::ordering::Relaxed;
use kernel::sync::Arc;

impl Session {
    /// Returns the pool with this number, if it is live.
    pub(crate) fn pool(&self, number: u32) -> Option<&Pool> {
        self.pool_slot(number).filter(|pool| pool.is_live())
    }

    /// Returns the live pools with a number of at least `from`, and their numbers, in the order of
    /// these.
    pub(crate) fn live_pools(&self, from: u32) -> impl Iterator<Item = (u32, &Pool)> {
        (from..self.pool_count()).filter_map(|number| Some((number, self.pool(number)?)))
    }

    /// Returns a pool's part of `pages`, the entitlement of the VM in the memory tier. Pools may
    /// change during the call.
    pub(crate) fn entitlement(&self, pool: u32, pages: u64) -> u64 {
        let weights = (0..self.pool_count()).map(|number| u64::from(self.share(number)));
        part(pages, self.share(pool).into(), weights.sum())
    }

    /// Returns a pool's part of `pages`, the entitlement of the VM in the SSD tier.
    pub(crate) fn ssd_entitlement(&self, pool: u32, pages: u64) -> u64 {
        part(pages, self.ssd_share(pool).into(), self.writer.pools())
    }

    /// Creates a pool and returns its number.
    pub(crate) fn create_pool(&self, settings: Settings, name: Name) -> Result<u32, Status> {
        let _control = self.control.lock();
        for number in DEFAULT_POOL + 1..MAX_POOLS {
            if self.pool(number).is_some() || self.has_pages(number) || !self.forget_pool(number) {
                continue;
            }
            return match self.begin_pool(number, settings, name) {
                Ok(()) => Ok(number),
                Err(_) => Err(Status::NoMemory),
            };
        }
        Err(Status::Limit)
    }

    /// Changes the settings of a pool. If it may no longer use the memory tier, its pages there are
    /// demoted or evicted. Pages in the SSD tier stay until they are read, promoted or evicted,
    /// unless the pool may not keep any pages.
    pub(crate) fn set_pool(
        self: &Arc<Self>,
        number: u32,
        settings: Settings,
    ) -> Result<(), Status> {
        let control = self.control.lock();
        let pool = self.pool(number).ok_or(Status::NoPool)?;
        pool.set(settings);
        self.weigh();
        drop(control);
        if settings.ssd_share() == 0 {
            pool.log.close(None);
        }
        if settings.share() == 0 {
            empty_pool(self, number);
        }
        Ok(())
    }

    /// Ends a pool and frees its pages.
    pub(crate) fn destroy_pool(self: &Arc<Self>, number: u32) -> Result<(), Status> {
        let control = self.control.lock();
        self.pool(number).ok_or(Status::NoPool)?.end();
        self.weigh();
        drop(control);
        empty_pool(self, number);
        Ok(())
    }

    /// Makes the pool of a free slot live.
    pub(super) fn begin_pool(&self, number: u32, settings: Settings, name: Name) -> Result {
        let place = self.pools.get(number as usize).ok_or(EINVAL)?;
        let lists = (number as usize + 1).next_power_of_two() * LISTS;
        for shard in self.shards.iter() {
            shard.extend_lists(lists)?;
        }
        self.extend_entities(number as usize + 1)?;
        if place.as_ref().is_none() {
            let holding = Holding::new(Some(self.holding.clone()))?;
            let pool = Pool::new(Log::new(holding));
            place.populate(KBox::pin_init(pool, charged())?);
        }
        if let Some(pool) = place.as_ref() {
            pool.begin(settings, name);
        }
        if number >= self.pool_count() {
            self.pool_count.store(number + 1, Relaxed);
        }
        self.weigh();
        Ok(())
    }

    /// Sums the weights with which the pools divide the VM's shares of write budgets. The caller
    /// holds the control lock, or is the only one that knows the session.
    fn weigh(&self) {
        let weights = self.live_pools(0).map(|(_, pool)| pool.ssd_share());
        self.writer.set_pools(weights.map(u64::from).sum());
    }

    /// Allocates memory for the entitlements of `count` pools, if there is not enough yet.
    fn extend_entities(&self, count: usize) -> Result {
        if self.entities.lock().len() < count {
            let count = count.next_power_of_two();
            let mut entities = KVVec::from_elem(Entity::default(), count, charged())?;
            // The old memory is freed without the lock.
            core::mem::swap(&mut *self.entities.lock(), &mut entities);
        }
        Ok(())
    }

    /// Returns whether pages of a pool that ended are not freed yet.
    fn has_pages(&self, number: u32) -> bool {
        let holds = |pool: &Pool| pool.gauge.held() > 0 || pool.log.holding.places() > 0;
        self.pool_slot(number).is_some_and(holds)
    }

    /// Resets the counters of the slot of an ended pool. Returns `false` if it still has pages.
    fn forget_pool(&self, number: u32) -> bool {
        self.shards
            .iter()
            .all(|shard| all_lists(number).all(|list| shard.reset_list(list)))
    }

    /// Returns the pool with this number, whether or not it has ended.
    pub(crate) fn pool_slot(&self, number: u32) -> Option<&Pool> {
        Some(self.pools.get(number as usize)?.as_ref()?)
    }
}
