// SPDX-License-Identifier: GPL-2.0

//! Finds the next difference between what is and what should be.

use super::{Action, Time, retry::Retries, targets::Target};
use ddabi::pool::{DEFAULT_POOL, Store};
use ddnl::{NewPool, Pool, PoolChange};
use std::collections::BTreeMap;

/// Both sides of the comparison.
pub(super) struct Plan<'a> {
    pub(super) now: Time,
    pub(super) retries: &'a Retries,
    /// Cgroups whose pools are ours, and the names we gave them.
    pub(super) managed: &'a BTreeMap<String, String>,
    pub(super) targets: &'a BTreeMap<String, Target>,
    /// The weight of a container, if it is not what the file says.
    pub(super) weight: &'a dyn Fn(&str) -> Option<u32>,
    pub(super) present: &'a BTreeMap<&'a str, &'a Pool>,
    pub(super) default_pool: Option<&'a Pool>,
    pub(super) default_weight: Option<u32>,
}

impl Plan<'_> {
    /// The next step: pools are removed first, for there is a limit to their number.
    pub(super) fn next(&self) -> Option<Action> {
        self.remove()
            .or_else(|| self.set_default())
            .or_else(|| self.set())
            .or_else(|| self.add())
    }

    /// A pool of ours that is not wanted any more, or under another name. The pool of a cgroup
    /// that died is not present: it is left to the kernel.
    fn remove(&self) -> Option<Action> {
        self.managed.iter().find_map(|(cgroup, name)| {
            let pool = self.present.get(cgroup.as_str())?;
            let target = self.targets.get(cgroup);
            let unwanted = target.is_none_or(|target| target.name != *name);
            (unwanted && self.may(cgroup)).then_some(Action::Remove(pool.id))
        })
    }

    fn set_default(&self) -> Option<Action> {
        let pool = self.default_pool?;
        let weight = self
            .default_weight
            .filter(|weight| *weight != pool.weight)?;
        let change = PoolChange {
            weight: Some(weight),
            ..PoolChange::default()
        };
        self.may("").then_some(Action::Set(DEFAULT_POOL, change))
    }

    fn set(&self) -> Option<Action> {
        self.targets.iter().find_map(|(cgroup, target)| {
            let pool = self.present.get(cgroup.as_str())?;
            let weight = (self.weight)(cgroup).unwrap_or(target.weight);
            let change = PoolChange {
                weight: Some(weight).filter(|weight| *weight != pool.weight),
                store: Some(target.store).filter(|store: &Store| *store != pool.store),
                policy: target.policy.filter(|policy| *policy != pool.policy),
            };
            let same = change == PoolChange::default();
            (!same && self.may(cgroup)).then_some(Action::Set(pool.id, change))
        })
    }

    fn add(&self) -> Option<Action> {
        self.targets.iter().find_map(|(cgroup, target)| {
            if self.present.contains_key(cgroup.as_str()) || !self.may(cgroup) {
                return None;
            }
            Some(Action::Add(NewPool {
                cgroup: cgroup.clone(),
                name: target.name.clone(),
                weight: (self.weight)(cgroup).unwrap_or(target.weight),
                store: target.store,
                policy: target.policy,
            }))
        })
    }

    fn may(&self, key: &str) -> bool {
        self.retries.may(self.now, key)
    }
}
