// SPDX-License-Identifier: GPL-2.0-only

//! Routes, by which hooks find the host's pool of a cgroup.

use crate::memory::gfp_nowarn;
use crate::pools::admissions::DEFAULT_SLOT;
use crate::pools::pool::Pool;
use ddabi::pool::{DEFAULT_POOL, MAX_POOLS};
use kernel::prelude::*;

/// The part of a pool that hooks need.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    /// The id of the cgroup; 0 for the default pool.
    pub(crate) cgroup: u64,
    /// The host's number of the pool.
    pub(crate) host: u32,
    /// The slot of the pool's admission.
    pub(crate) slot: u16,
    /// Whether pages of the pool are put.
    pub(crate) caches: bool,
}

/// The routes of all pools. Memory for the maximum number of pools is allocated in advance, because
/// a change that the host has made must not fail here.
pub(crate) struct Routes {
    /// The routes of containers, sorted by cgroup id.
    pub(crate) enrolled: KVVec<Route>,
    /// The route of all other folios.
    pub(crate) default: Route,
    /// Slots of the pools' admissions, indexed by the host's numbers of the pools.
    pub(crate) slots: KVVec<u16>,
}

const DEFAULT_ROUTE: Route = Route {
    cgroup: 0,
    host: DEFAULT_POOL,
    slot: DEFAULT_SLOT,
    caches: true,
};

impl Routes {
    /// Allocates routes that lead to the default pool only. Sleeps.
    pub(crate) fn new() -> Result<Self> {
        let count = MAX_POOLS as usize;
        Ok(Self {
            enrolled: KVVec::with_capacity(count, gfp_nowarn())?,
            default: DEFAULT_ROUTE,
            // Pressure that is reported for unknown pools goes to the default pool, where it is
            // harmless.
            slots: KVVec::from_elem(DEFAULT_SLOT, count, gfp_nowarn())?,
        })
    }

    /// Rebuilds the routes for these pools.
    pub(crate) fn rebuild(&mut self, pools: &[Pool]) {
        self.enrolled.clear();
        self.slots.fill(DEFAULT_SLOT);
        for pool in pools {
            let caches = pool.settings.is_on();
            if let Some(place) = pool.host.and_then(|host| self.slots.get_mut(host as usize)) {
                *place = pool.slot;
            }
            match &pool.cgroup {
                None => self.default.caches = caches,
                Some(cgroup) => {
                    // A container without a pool at the host keeps no pages there.
                    let (host, caches) = pool.host.map_or((0, false), |host| (host, caches));
                    let route = Route {
                        cgroup: cgroup.id(),
                        host,
                        slot: pool.slot,
                        caches,
                    };
                    let enrolled = &mut self.enrolled;
                    let at = enrolled.partition_point(|other| other.cgroup < route.cgroup);
                    // Memory for all routes was allocated in advance.
                    let _ = enrolled.insert_within_capacity(at, route);
                }
            }
        }
    }
}
