// SPDX-License-Identifier: GPL-2.0-only

//! The guest module in memory.

use super::{Fault, lock, not_found, refused};
use crate::{
    call::{check_cgroup, check_name, check_weight},
    control::{AsyncGuestControl, GuestControl, NewPool, PoolChange},
    error::Result,
    family::Side,
    printable::listed_name,
    reply::{GuestStatus, Pool},
};
use ddabi::{
    ABI_VERSION,
    counters::{AdmissionCounters, GuestCounters},
    genl::LinkState,
    policy::Policy,
    pool::{DEFAULT_POOL, DEFAULT_WEIGHT, MAX_POOLS, PoolStats, SsdAdmit, Store},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// State of the fake guest module.
#[derive(Clone, Debug)]
pub struct GuestState {
    /// How it responds to requests.
    pub fault: Fault,
    /// The reply to `status`.
    pub status: GuestStatus,
    /// The pools, the default pool first.
    pub pools: Vec<Pool>,
    /// The existing cgroups, with their numbers; others cannot be enrolled. `None` means that every
    /// cgroup exists.
    pub cgroups: Option<BTreeMap<String, u64>>,
    /// The flush requests, in order.
    pub flushed: Vec<Option<u32>>,
    /// Number of changes that were made or tried.
    pub changes: u64,
    next_pool: u32,
}

impl Default for GuestState {
    fn default() -> Self {
        Self {
            fault: Fault::None,
            status: GuestStatus {
                abi_version: u32::from(ABI_VERSION),
                module_version: Some(ddabi::VERSION.into()),
                state: LinkState::Attached,
                vm: Some(1),
                features: Some(0),
                pools: 1,
                counters: GuestCounters::default(),
            },
            pools: vec![Pool {
                vm: None,
                admission: Some(AdmissionCounters::default()),
                curve: Some(Vec::new()),
                ..super::pool(0, DEFAULT_POOL, "default", PoolStats::default())
            }],
            cgroups: None,
            flushed: Vec::new(),
            changes: 0,
            next_pool: 1,
        }
    }
}

impl GuestState {
    /// Removes a cgroup and its pool.
    pub fn remove_cgroup(&mut self, path: &str) {
        if let Some(cgroups) = &mut self.cgroups {
            cgroups.remove(path);
        }
        self.pools
            .retain(|pool| pool.cgroup.as_deref() != Some(path));
    }

    /// Reloads the module, after which only the default pool exists.
    pub fn reload(&mut self) {
        self.pools.truncate(1);
        self.pools[0].weight = DEFAULT_WEIGHT;
        self.pools[0].ssd_weight = DEFAULT_WEIGHT;
        self.pools[0].store = Store::Memory;
        self.pools[0].policy = Policy::DEFAULT;
        self.pools[0].ssd_admit = SsdAdmit::All;
    }

    fn pool(&mut self, id: u32) -> Result<&mut Pool> {
        let pool = self.pools.iter_mut().find(|pool| pool.id == id);
        pool.ok_or_else(|| not_found("no such pool".into()))
    }

    fn add(&mut self, new: &NewPool) -> Result<u32> {
        check_weight(new.weight)?;
        check_weight(new.ssd_weight.unwrap_or(0))?;
        check_name(&new.name)?;
        check_cgroup(&new.cgroup)?;
        let cgroup_id = match &self.cgroups {
            None => Some(u64::from(self.next_pool) + 1000),
            Some(cgroups) => cgroups.get(&new.cgroup).copied(),
        };
        let Some(cgroup_id) = cgroup_id else {
            return Err(not_found("no such cgroup".into()));
        };
        let same = |pool: &Pool| pool.cgroup_id == Some(cgroup_id);
        if self.pools.iter().any(same) {
            return Err(refused(17, "the cgroup is enrolled already"));
        }
        if self.pools.len() >= MAX_POOLS as usize {
            return Err(refused(28, "too many pools"));
        }
        // Tests may have added pools directly.
        let last = self.pools.iter().map(|pool| pool.id).max();
        let id = self.next_pool.max(last.map_or(0, |last| last + 1));
        self.next_pool = id + 1;
        self.pools.push(Pool {
            vm: None,
            id,
            name: listed_name(&new.name),
            cgroup_id: Some(cgroup_id),
            cgroup: Some(new.cgroup.clone()),
            weight: new.weight,
            ssd_weight: new.ssd_weight.unwrap_or(new.weight),
            store: new.store,
            policy: new.policy.unwrap_or_default(),
            ssd_admit: new.ssd_admit.unwrap_or_default(),
            admission: Some(AdmissionCounters::default()),
            curve: Some(Vec::new()),
            stats: Some(PoolStats::default()),
        });
        Ok(id)
    }

    fn set(&mut self, id: u32, change: PoolChange) -> Result<()> {
        for weight in [change.weight, change.ssd_weight].into_iter().flatten() {
            check_weight(weight)?;
        }
        let pool = self.pool(id)?;
        pool.weight = change.weight.unwrap_or(pool.weight);
        pool.ssd_weight = change.ssd_weight.unwrap_or(pool.ssd_weight);
        pool.store = change.store.unwrap_or(pool.store);
        pool.policy = change.policy.unwrap_or(pool.policy);
        pool.ssd_admit = change.ssd_admit.unwrap_or(pool.ssd_admit);
        Ok(())
    }

    fn remove(&mut self, id: u32) -> Result<()> {
        if id == DEFAULT_POOL {
            return Err(refused(22, "the default pool stays"));
        }
        self.pool(id)?;
        self.pools.retain(|pool| pool.id != id);
        Ok(())
    }
}

/// Returns a pool as the module reports it: a path that exceeds the module's buffer is truncated.
fn as_shown(pool: &Pool) -> Pool {
    const SHOWN: usize = 511;
    let mut pool = pool.clone();
    if let Some(path) = &mut pool.cgroup {
        let mut end = SHOWN.min(path.len());
        while !path.is_char_boundary(end) {
            end -= 1;
        }
        path.truncate(end);
    }
    pool
}

/// A handle to a guest module in memory.
#[derive(Clone, Debug, Default)]
pub struct FakeGuest(Arc<Mutex<GuestState>>);

impl FakeGuest {
    /// Creates a module in this state.
    pub fn new(state: GuestState) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    /// Reads or changes the state.
    pub fn with<T>(&self, look: impl FnOnce(&mut GuestState) -> T) -> T {
        look(&mut lock(&self.0))
    }

    fn ask<T>(&self, answer: impl FnOnce(&GuestState) -> T) -> Result<T> {
        self.with(|state| state.fault.query(Side::Guest).map(|()| answer(state)))
    }

    fn change<T>(&self, change: impl FnOnce(&mut GuestState) -> Result<T>) -> Result<T> {
        self.with(|state| {
            state.changes += 1;
            state.fault.change(Side::Guest)?;
            change(state)
        })
    }
}

impl GuestControl for FakeGuest {
    fn status(&mut self) -> Result<GuestStatus> {
        self.ask(|state| GuestStatus {
            pools: u32::try_from(state.pools.len()).unwrap_or(u32::MAX),
            ..state.status.clone()
        })
    }

    fn pools(&mut self) -> Result<Vec<Pool>> {
        self.ask(|state| state.pools.iter().map(as_shown).collect())
    }

    fn add_pool(&mut self, pool: &NewPool) -> Result<u32> {
        self.change(|state| state.add(pool))
    }

    fn set_pool(&mut self, pool: u32, change: PoolChange) -> Result<()> {
        self.change(|state| state.set(pool, change))
    }

    fn remove_pool(&mut self, pool: u32) -> Result<()> {
        self.change(|state| state.remove(pool))
    }

    fn flush(&mut self, pool: Option<u32>) -> Result<()> {
        self.change(|state| {
            if let Some(pool) = pool {
                state.pool(pool)?;
            }
            state.flushed.push(pool);
            Ok(())
        })
    }

    fn migrate(&mut self, _file: u32, pool: u32) -> Result<()> {
        self.change(|state| state.pool(pool).map(|_| ()))
    }
}

impl AsyncGuestControl for FakeGuest {
    async fn status(&mut self) -> Result<GuestStatus> {
        GuestControl::status(self)
    }

    async fn pools(&mut self) -> Result<Vec<Pool>> {
        GuestControl::pools(self)
    }

    async fn add_pool(&mut self, pool: &NewPool) -> Result<u32> {
        GuestControl::add_pool(self, pool)
    }

    async fn set_pool(&mut self, pool: u32, change: PoolChange) -> Result<()> {
        GuestControl::set_pool(self, pool, change)
    }

    async fn remove_pool(&mut self, pool: u32) -> Result<()> {
        GuestControl::remove_pool(self, pool)
    }
}
