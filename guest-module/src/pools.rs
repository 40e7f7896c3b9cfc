// SPDX-License-Identifier: GPL-2.0-only

//! Enrolled containers.
//!
//! A folio belongs to the pool of the nearest enrolled ancestor of the cgroup that it is charged
//! to, or else to the default pool of the VM. [`pool`] is one container, [`routes`] is the table
//! for hooks, and [`admission`] decides which pages of a pool are put; [`admissions`] has the
//! admissions of all pools.

pub(crate) mod admission;
pub(crate) mod admissions;
pub(crate) mod pool;
pub(crate) mod routes;

use crate::ffi::cgroup::Cgroup;
use crate::ffi::folio::Folio;
use crate::host::call::Failure;
use crate::host::channel::Channel;
use crate::lock::{new_irq_lock, IrqLock};
use crate::memory::gfp_nowarn;
use crate::pools::admission::Rule;
use crate::pools::admissions::Admissions;
use crate::pools::pool::{
    body, create_at_host, default_pool, destroy_at_host, send_pool_event, to_error, Pool, NO_HOST,
};
use crate::pools::routes::{Route, Routes};
use ddabi::answer::PoolPressure;
use ddabi::genl::Event;
use ddabi::hypercall::{Operation, Status};
use ddabi::name::Name;
use ddabi::pool::{DEFAULT_POOL, MAX_POOLS};
use ddcore::request::Settings;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Mutex};

/// Maximum number of ancestors of a cgroup that are searched, from the leaf up.
const MAX_DEPTH: usize = 24;

/// The pools, and spare routes. When pools change, the spare routes are filled and then exchanged
/// with the current ones, so that `routes` is locked only for a moment.
struct List {
    /// The pools, sorted by id.
    pools: KVec<Pool>,
    spare: Routes,
}

/// All pools of the VM.
#[pin_data]
pub(crate) struct Pools {
    /// The pools. Locked before `routes`.
    #[pin]
    list: Mutex<List>,
    #[pin]
    routes: IrqLock<Routes>,
    /// Decides which pages of each pool are put.
    pub(crate) admissions: Admissions,
}

impl Pools {
    /// Allocates the default pool. Sleeps.
    pub(crate) fn new(admissions: Admissions) -> impl PinInit<Self, Error> {
        let list = || -> Result<List> {
            Ok(List {
                pools: default_pool()?,
                spare: Routes::new()?,
            })
        };
        try_pin_init!(Self {
            list <- new_mutex!(list()?, "Pools::list"),
            routes <- new_irq_lock!(Routes::new()?, "Pools::routes"),
            admissions,
        })
    }

    fn route(&self, folio: &Folio<'_>) -> Route {
        let mut ids = [0; MAX_DEPTH];
        let ids = folio.cgroups(&mut ids);
        self.routes.with(|routes| {
            if !routes.enrolled.is_empty() {
                for id in ids {
                    if let Ok(at) = routes
                        .enrolled
                        .binary_search_by_key(id, |route| route.cgroup)
                    {
                        return routes.enrolled[at];
                    }
                }
            }
            routes.default
        })
    }

    /// Returns the route of a folio that leaves the page cache; `None` if its pool keeps no pages.
    /// Any context.
    pub(crate) fn put_route(&self, folio: &Folio<'_>) -> Option<Route> {
        Some(self.route(folio)).filter(|route| route.caches)
    }

    /// Returns the route of a folio that is being read, which is charged to its reader. Any
    /// context.
    pub(crate) fn read_route(&self, folio: &Folio<'_>) -> Route {
        self.route(folio)
    }

    /// Passes the pressure that the host reports for a pool on to its admission. Any context.
    pub(crate) fn note_pressure(&self, pressure: &PoolPressure) {
        let slot = self
            .routes
            .with(|routes| routes.slots.get(pressure.pool as usize).copied());
        if let Some(slot) = slot {
            self.admissions.note_pressure(slot, pressure);
        }
    }

    /// Rebuilds the routes. Called after each change of the pools.
    fn update_routes(&self, list: &mut List) {
        list.spare.rebuild(&list.pools);
        self.routes
            .with(|current| core::mem::swap(current, &mut list.spare));
    }

    /// Enrols the cgroup at `path` as a container and returns the id of its pool. Fails with
    /// `EEXIST` if the cgroup is enrolled already and with `ENOSPC` if there are too many
    /// containers. Pools of cgroups that no longer exist are removed first, so that the new pool
    /// does not share the VM's entitlement with them. Sleeps.
    pub(crate) fn add(
        &self,
        channel: &Channel,
        path: &CStr,
        name: Name,
        settings: Settings,
    ) -> Result<u32> {
        let cgroup = Cgroup::open(path)?;
        self.remove_dead(channel);
        let mut list = self.list.lock();
        let twin = |pool: &Pool| {
            pool.cgroup
                .as_ref()
                .is_some_and(|one| one.id() == cgroup.id())
        };
        if list.pools.iter().any(twin) {
            return Err(EEXIST);
        }
        if list.pools.len() >= MAX_POOLS as usize {
            return Err(ENOSPC);
        }
        let id = list
            .pools
            .last()
            .map_or(0, |pool| pool.id)
            .checked_add(1)
            .ok_or(ENOSPC)?;
        // There are as many slots as the maximum number of pools, so that one is free.
        let is_free = |slot: &u16| list.pools.iter().all(|pool| pool.slot != *slot);
        let slot = (0..MAX_POOLS as u16).find(is_free).ok_or(ENOSPC)?;
        let mut pool = Pool {
            id,
            host: None,
            cgroup: Some(cgroup),
            name,
            settings,
            slot,
        };
        // Memory is allocated before the host is asked, so that a failure needs no rollback.
        list.pools.reserve(1, gfp_nowarn())?;
        self.admissions.open(slot, Rule::of(&settings))?;
        if let Some(session) = channel.session() {
            if let Err(failure) = create_at_host(channel, session, &mut pool) {
                self.admissions.close(slot);
                return Err(to_error(failure));
            }
        }
        let _ = list.pools.push_within_capacity(pool);
        self.update_routes(&mut list);
        drop(list);
        send_pool_event(Event::PoolCame, id, name);
        Ok(id)
    }

    /// Changes the settings of a pool, in the guest and at the host. Pools of cgroups that no
    /// longer exist are removed first, so that the weights do not include them. Sleeps.
    pub(crate) fn set(
        &self,
        channel: &Channel,
        id: u32,
        change: impl FnOnce(&mut Settings),
    ) -> Result {
        self.remove_dead(channel);
        let mut list = self.list.lock();
        let pool = list.find(id)?;
        let mut settings = pool.settings;
        change(&mut settings);
        if let (Some(session), Some(host)) = (channel.session(), pool.host) {
            let body = body(host, &pool.name, settings);
            channel
                .command(session, Operation::PoolSet, &body, |_| ())
                .map_err(to_error)?;
        }
        pool.settings = settings;
        self.admissions.set_rule(pool.slot, Rule::of(&settings));
        self.update_routes(&mut list);
        Ok(())
    }

    /// Removes a container and has the host free its pages. Fails with `EINVAL` for the default
    /// pool. Sleeps.
    pub(crate) fn remove(&self, channel: &Channel, id: u32) -> Result {
        if id == DEFAULT_POOL {
            return Err(EINVAL);
        }
        let pool = self.take(|pool| pool.id == id).ok_or(ENOENT)?;
        destroy_at_host(channel, &pool);
        Ok(())
    }

    /// Removes the first pool that `is_wanted` selects from the list, with its route and its
    /// history, and returns it. It must not be the default pool. The lock is held from the search
    /// to the removal, because the ID of the last pool is reused after the pool was removed.
    fn take(&self, is_wanted: impl Fn(&Pool) -> bool) -> Option<Pool> {
        let mut list = self.list.lock();
        let at = list.pools.iter().position(is_wanted)?;
        let pool = list.pools.remove(at).ok()?;
        self.update_routes(&mut list);
        self.admissions.close(pool.slot);
        Some(pool)
    }

    /// Has the host free all pages of a container by destroying its pool and creating it again.
    /// Sleeps.
    pub(crate) fn renew(&self, channel: &Channel, id: u32) -> Result {
        let mut list = self.list.lock();
        let pool = list.find(id)?;
        let session = channel.session().ok_or(NO_HOST)?;
        if pool.cgroup.is_none() {
            return Err(EINVAL);
        }
        if let Some(host) = pool.host {
            let old = body(host, &pool.name, pool.settings);
            channel
                .command(session, Operation::PoolDestroy, &old, |_| ())
                .map_err(to_error)?;
            pool.host = None;
        }
        // If the host cannot create the pool now, the worker tries again.
        let enrolled = create_at_host(channel, session, pool).map_err(to_error);
        self.update_routes(&mut list);
        enrolled
    }

    /// Removes the containers whose cgroup was removed. Sleeps.
    pub(crate) fn remove_dead(&self, channel: &Channel) {
        let is_dead = |pool: &Pool| pool.cgroup.as_ref().is_some_and(Cgroup::is_dead);
        while let Some(pool) = self.take(is_dead) {
            destroy_at_host(channel, &pool);
        }
    }

    /// Creates all pools at the host in a new session. Worker only.
    pub(crate) fn enrol_all(&self, channel: &Channel, session: u64) {
        let mut list = self.list.lock();
        for pool in list.pools.iter_mut() {
            pool.host = None;
            match create_at_host(channel, session, pool) {
                Ok(()) | Err(Failure::Refused(Status::NoMemory)) => {}
                Err(_) => pr_warn!(
                    "the host did not create a pool for container {}: its pages are not cached\n",
                    pool.id
                ),
            }
        }
        self.update_routes(&mut list);
    }

    /// Creates those pools at the host that it could not create before. Worker only.
    pub(crate) fn enrol_rest(&self, channel: &Channel, session: u64) {
        let mut list = self.list.lock();
        let mut enrolled = false;
        for pool in list.pools.iter_mut().filter(|pool| pool.host.is_none()) {
            enrolled |= create_at_host(channel, session, pool).is_ok();
        }
        if enrolled {
            self.update_routes(&mut list);
        }
    }

    /// Calls `look` with the first pool whose id is above `after`, or with the first of all.
    /// Returns `None` if there is none.
    pub(crate) fn next<R>(&self, after: Option<u32>, look: impl FnOnce(&Pool) -> R) -> Option<R> {
        let list = self.list.lock();
        let next = |pool: &&Pool| after.is_none_or(|after| pool.id > after);
        list.pools.iter().find(next).map(look)
    }

    /// Returns the number of pools.
    pub(crate) fn count(&self) -> u32 {
        self.list.lock().pools.len() as u32
    }

    /// Returns the host's number of a pool. Fails with `NO_HOST` if the pool does not exist at the
    /// host.
    pub(crate) fn host_of(&self, id: u32) -> Result<u32> {
        let mut list = self.list.lock();
        list.find(id)?.host.ok_or(NO_HOST)
    }
}

impl List {
    /// Returns the pool with this id, or `ENOENT`.
    fn find(&mut self, id: u32) -> Result<&mut Pool> {
        let mut pools = self.pools.iter_mut();
        pools.find(|pool| pool.id == id).ok_or(ENOENT)
    }
}
