// SPDX-License-Identifier: GPL-2.0-only

//! The engine's view of the module's pools.

use super::{Action, Cgroups};
use ddabi::pool::DEFAULT_POOL;
use ddnl::Pool;
use std::collections::{BTreeMap, BTreeSet};

/// The pools of the last list, with the changes since.
#[derive(Debug, Default)]
pub(super) struct View {
    listed: bool,
    pools: BTreeMap<u32, Pool>,
}

impl View {
    /// Replaces the list. Returns whether it is the first one.
    pub(super) fn replace(&mut self, pools: Vec<Pool>) -> bool {
        self.pools = pools.into_iter().map(|pool| (pool.id, pool)).collect();
        !std::mem::replace(&mut self.listed, true)
    }

    /// Returns the pools of existing cgroups. A pool can outlive its cgroup for a while, even when
    /// there is a new cgroup of the same path, and the module shows only the beginning of a long
    /// path. Cgroups are therefore compared by their ids.
    pub(super) fn of<'a>(&'a self, cgroups: &'a Cgroups) -> BTreeMap<&'a str, &'a Pool> {
        let mut paths: Option<BTreeMap<u64, &str>> = None;
        let mut place = |pool: &'a Pool| {
            let shown = pool.cgroup.as_deref()?;
            let found = cgroups.get_key_value(shown);
            let Some(own) = pool.cgroup_id else {
                return found.map(|(path, _)| path.as_str());
            };
            match found {
                Some((path, id)) if *id == own => Some(path.as_str()),
                // This is rare, so that the table is built only when it is needed.
                _ => paths
                    .get_or_insert_with(|| {
                        let entry = |(path, id): (&'a String, &u64)| (*id, path.as_str());
                        cgroups.iter().map(entry).collect()
                    })
                    .get(&own)
                    .copied(),
            }
        };
        self.pools
            .values()
            .filter_map(|pool| Some((place(pool)?, pool)))
            .collect()
    }

    /// Returns the paths of all pools, including those of removed cgroups.
    pub(super) fn paths(&self) -> BTreeSet<&str> {
        let paths = self.pools.values().map(|pool| pool.cgroup.as_deref());
        paths.flatten().collect()
    }

    /// Returns whether there is a pool for a cgroup, or for one below it.
    pub(super) fn concerns(&self, cgroup: &str) -> bool {
        let mut paths = self
            .pools
            .values()
            .filter_map(|pool| pool.cgroup.as_deref());
        paths.any(|path| is_within(path, cgroup))
    }

    pub(super) fn default_pool(&self) -> Option<&Pool> {
        self.pools.get(&DEFAULT_POOL)
    }

    /// Returns the path of the cgroup that a change is about, which is empty for the default pool.
    pub(super) fn cgroup_of(&self, action: &Action, cgroups: &Cgroups) -> String {
        match action {
            Action::Add(pool) => pool.cgroup.clone(),
            Action::Remove(id) | Action::Set(id, _) => {
                let Some(pool) = self.pools.get(id) else {
                    return String::new();
                };
                let own = |(_, number): &(&String, &u64)| Some(**number) == pool.cgroup_id;
                let whole = cgroups.iter().find(own).map(|(path, _)| path);
                whole.or(pool.cgroup.as_ref()).cloned().unwrap_or_default()
            }
            _ => String::new(),
        }
    }

    /// Applies a change to the list after it was made in the module.
    pub(super) fn apply(&mut self, action: Action, added: Option<u32>, cgroups: &Cgroups) {
        match (action, added) {
            (Action::Add(new), Some(id)) => {
                let pool = Pool {
                    vm: None,
                    id,
                    name: new.name,
                    cgroup_id: cgroups.get(&new.cgroup).copied(),
                    cgroup: Some(new.cgroup),
                    weight: new.weight,
                    ssd_weight: new.ssd_weight.unwrap_or(new.weight),
                    store: new.store,
                    policy: new.policy.unwrap_or_default(),
                    ssd_admit: new.ssd_admit.unwrap_or_default(),
                    admission: None,
                    curve: None,
                    stats: None,
                };
                self.pools.insert(id, pool);
            }
            (Action::Set(id, change), _) => {
                if let Some(pool) = self.pools.get_mut(&id) {
                    pool.weight = change.weight.unwrap_or(pool.weight);
                    pool.ssd_weight = change.ssd_weight.unwrap_or(pool.ssd_weight);
                    pool.store = change.store.unwrap_or(pool.store);
                    pool.policy = change.policy.unwrap_or(pool.policy);
                    pool.ssd_admit = change.ssd_admit.unwrap_or(pool.ssd_admit);
                }
            }
            (Action::Remove(id), _) => {
                self.pools.remove(&id);
            }
            _ => {}
        }
    }
}

/// Returns whether a path is another one or lies below it.
pub(super) fn is_within(path: &str, other: &str) -> bool {
    let rest = path.strip_prefix(other);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
