// SPDX-License-Identifier: GPL-2.0-only

//! Finds the differences between existing and wanted pools.

use super::{Action, Time, cursor::Cursor, enrolment::Weights, matches::Match, retry::Retries};
use ddabi::pool::{DEFAULT_POOL, Store};
use ddnl::{NewPool, Pool, PoolChange, is_listed_as};
use std::collections::BTreeMap;

/// Both sides of the comparison.
pub(super) struct Plan<'a> {
    pub(super) now: Time,
    pub(super) retries: &'a Retries,
    /// Cgroups whose pools the daemon manages, and their names in the module's list.
    pub(super) managed: &'a BTreeMap<String, String>,
    pub(super) matches: &'a BTreeMap<String, Match>,
    pub(super) weights: Weights<'a>,
    pub(super) present: &'a BTreeMap<&'a str, &'a Pool>,
    pub(super) default_pool: Option<&'a Pool>,
    pub(super) default_weight: Option<u32>,
}

impl Plan<'_> {
    /// Returns all steps that can be taken one after the other. Pools are removed first, because
    /// their number is limited. Weights are lowered before others are raised and pools added, so
    /// that no container's share shrinks in between. Steps that depend on these (a pool under
    /// another name) are found by the next comparison.
    pub(super) fn steps(&self) -> Vec<Action> {
        let mut steps = self.removals();
        steps.extend(self.set_default());
        let (mut pools, mut names) = (Cursor::new(self.present), Cursor::new(self.managed));
        let mut weights = Cursor::new(self.weights.memory);
        let mut ssd_weights = Cursor::new(self.weights.ssd);
        let (mut raised, mut added) = (Vec::new(), Vec::new());
        for (cgroup, matched) in self.matches {
            let weight = weights.at(cgroup).copied().unwrap_or(matched.weight);
            let chosen = ssd_weights.at(cgroup).copied();
            let ssd_weight = matched.ssd_weight.map(|own| chosen.unwrap_or(own));
            let weight = (weight, ssd_weight);
            match pools.at(cgroup) {
                // The pool is removed first, and added under its new name later.
                Some(_) if is_other(names.at(cgroup), matched) => {}
                Some(pool) => {
                    let step = set(pool, matched, weight).filter(|_| self.may(cgroup));
                    let old = (pool.weight, Some(pool.ssd_weight));
                    match weight > old {
                        true => raised.extend(step),
                        false => steps.extend(step),
                    }
                }
                None => added.extend(self.may(cgroup).then(|| add(cgroup, matched, weight))),
            }
        }
        steps.extend(raised);
        steps.extend(added);
        steps
    }

    /// Returns the removal of managed pools that are not wanted any more, or have another name. The
    /// pool of a removed cgroup is not in the list, because the kernel removes it.
    fn removals(&self) -> Vec<Action> {
        let (mut pools, mut matches) = (Cursor::new(self.present), Cursor::new(self.matches));
        let remove = |(cgroup, name): (&String, &String)| {
            let pool = pools.at(cgroup)?;
            let matched = matches.at(cgroup);
            let unwanted = matched.is_none_or(|matched| is_other(Some(name), matched));
            (unwanted && self.may(cgroup)).then_some(Action::Remove(pool.id))
        };
        self.managed.iter().filter_map(remove).collect()
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

    fn may(&self, key: &str) -> bool {
        self.retries.may(self.now, key)
    }
}

/// Returns whether a pool that the module lists by `name` is that of another container.
fn is_other(name: Option<&String>, matched: &Match) -> bool {
    name.is_some_and(|name| !is_listed_as(&matched.name, name))
}

/// Returns the change that a pool needs, if any.
fn set(pool: &Pool, matched: &Match, (weight, ssd_weight): (u32, Option<u32>)) -> Option<Action> {
    let change = PoolChange {
        weight: Some(weight).filter(|weight| *weight != pool.weight),
        ssd_weight: ssd_weight.filter(|weight| *weight != pool.ssd_weight),
        store: Some(matched.store).filter(|store: &Store| *store != pool.store),
        policy: matched.policy.filter(|policy| *policy != pool.policy),
        ssd_admit: matched.ssd_admit.filter(|admit| *admit != pool.ssd_admit),
    };
    (change != PoolChange::default()).then_some(Action::Set(pool.id, change))
}

fn add(cgroup: &str, matched: &Match, (weight, ssd_weight): (u32, Option<u32>)) -> Action {
    Action::Add(NewPool {
        cgroup: cgroup.into(),
        name: matched.name.clone(),
        weight,
        ssd_weight,
        store: matched.store,
        policy: matched.policy,
        ssd_admit: matched.ssd_admit,
    })
}
