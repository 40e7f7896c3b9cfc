// SPDX-License-Identifier: GPL-2.0

//! The module's pools, as far as they are known.

use super::Action;
use ddabi::pool::DEFAULT_POOL;
use ddnl::Pool;
use std::collections::{BTreeMap, BTreeSet};

/// The pools of the last list, and what changed since.
#[derive(Debug, Default)]
pub(super) struct View {
    listed: bool,
    pools: BTreeMap<u32, Pool>,
    /// Pools whose cgroups died; the kernel removes them when it gets to it.
    dying: BTreeSet<(u32, Option<u64>)>,
}

impl View {
    /// Takes a new list; answers whether it is the first one.
    pub(super) fn replace(&mut self, pools: Vec<Pool>) -> bool {
        self.pools = pools.into_iter().map(|pool| (pool.id, pool)).collect();
        let pools = &self.pools;
        self.dying.retain(|(id, cgroup)| {
            let pool = pools.get(id);
            pool.is_some_and(|pool| pool.cgroup_id == *cgroup)
        });
        !std::mem::replace(&mut self.listed, true)
    }

    /// The living pools by their cgroups; of two of one path the one with the higher number.
    pub(super) fn by_cgroup(&self) -> BTreeMap<String, &Pool> {
        let living = |pool: &&Pool| {
            pool.id != DEFAULT_POOL && !self.dying.contains(&(pool.id, pool.cgroup_id))
        };
        self.pools
            .values()
            .filter(living)
            .filter_map(|pool| Some((pool.cgroup.clone()?, pool)))
            .collect()
    }

    pub(super) fn default_pool(&self) -> Option<&Pool> {
        self.pools.get(&DEFAULT_POOL)
    }

    /// What a change is about: the path of a cgroup, empty for the default pool.
    pub(super) fn cgroup_of(&self, action: &Action) -> String {
        match action {
            Action::Add(pool) => pool.cgroup.clone(),
            Action::Remove(id) | Action::Set(id, _) => {
                let pool = self.pools.get(id);
                pool.and_then(|pool| pool.cgroup.clone())
                    .unwrap_or_default()
            }
            Action::Connect | Action::List | Action::Scan => String::new(),
        }
    }

    /// Does to the list what was done to the module.
    pub(super) fn apply(&mut self, action: Action, added: Option<u32>) {
        match (action, added) {
            (Action::Add(new), Some(id)) => {
                let pool = Pool {
                    vm: None,
                    id,
                    name: new.name,
                    cgroup_id: None,
                    cgroup: Some(new.cgroup),
                    weight: new.weight,
                    store: new.store,
                    stats: None,
                };
                self.pools.insert(id, pool);
            }
            (Action::Set(id, change), _) => {
                if let Some(pool) = self.pools.get_mut(&id) {
                    pool.weight = change.weight.unwrap_or(pool.weight);
                    pool.store = change.store.unwrap_or(pool.store);
                }
            }
            (Action::Remove(id), _) => {
                self.pools.remove(&id);
            }
            _ => {}
        }
    }

    /// The cgroups for which `gone` holds died.
    pub(super) fn bury(&mut self, gone: impl Fn(&str) -> bool) {
        for pool in self.pools.values() {
            if pool.cgroup.as_deref().is_some_and(&gone) {
                self.dying.insert((pool.id, pool.cgroup_id));
            }
        }
    }

    /// Something was not as believed: a pool held for dead may live.
    pub(super) fn unbury(&mut self) {
        self.dying.clear();
    }
}
