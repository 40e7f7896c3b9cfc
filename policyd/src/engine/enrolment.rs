// SPDX-License-Identifier: GPL-2.0-only

//! The pools that the daemon manages, and the changes that they need.

use super::{
    Action, Time,
    bases::DEFAULT,
    cursor::Cursor,
    matches::{Match, Matches},
    plan::Plan,
    retry::Retries,
    view::View,
};
use ddnl::Pool;
use std::collections::{BTreeMap, VecDeque};

/// The pools that the daemon manages.
#[derive(Debug, Default)]
pub(super) struct Enrolment {
    /// Cgroups whose pools the daemon may change and remove, and their names in the module's list.
    pub(super) managed: BTreeMap<String, String>,
    pub(super) retries: Retries,
    /// Changes of pools that the last comparison found. Any event discards them.
    pub(super) changes: VecDeque<Action>,
}

/// Weights of containers that differ from the file.
#[derive(Clone, Copy)]
pub(super) struct Weights<'a> {
    /// In the memory tier, including the default pool.
    pub(super) memory: &'a BTreeMap<String, u32>,
    /// In the SSD tier.
    pub(super) ssd: &'a BTreeMap<String, u32>,
}

impl Enrolment {
    /// Returns the next change. To compare all pools is expensive, and one comparison finds many
    /// changes.
    pub(super) fn compare(
        &mut self,
        now: Time,
        matches: Matches<'_>,
        weights: Weights<'_>,
        view: &View,
        present: &BTreeMap<&str, &Pool>,
    ) -> Option<Action> {
        self.forget(matches.by_cgroup, view, present);
        self.adopt(matches.by_cgroup, present);
        let default_weight = weights.memory.get(DEFAULT).copied();
        let plan = Plan {
            now,
            retries: &self.retries,
            managed: &self.managed,
            matches: matches.by_cgroup,
            weights,
            present,
            default_pool: view.default_pool(),
            default_weight: default_weight.or(matches.config.default_pool_weight),
        };
        self.changes = plan.steps().into();
        let next = self.changes.pop_front();
        if next.is_none() {
            // A failed change that is due and not needed any more is forgotten.
            self.retries.forget_due(now);
        }
        next
    }

    /// Forgets cgroups that are containers no longer and whose pools are gone.
    fn forget(
        &mut self,
        matches: &BTreeMap<String, Match>,
        view: &View,
        present: &BTreeMap<&str, &Pool>,
    ) {
        let (mut wanted, mut pools) = (Cursor::new(matches), Cursor::new(present));
        let mut paths = None;
        self.managed.retain(|cgroup, _| {
            let (is_wanted, has_pool) = (wanted.at(cgroup).is_some(), pools.at(cgroup).is_some());
            // In rare cases the pool is that of a removed cgroup of the same path.
            let mut lingers = || {
                paths
                    .get_or_insert_with(|| view.paths())
                    .contains(&**cgroup)
            };
            is_wanted || has_pool || lingers()
        });
    }

    /// Adopts the pools of wanted cgroups, even if an administrator created them.
    fn adopt(&mut self, matches: &BTreeMap<String, Match>, present: &BTreeMap<&str, &Pool>) {
        let (mut wanted, mut managed) = (Cursor::new(matches), Cursor::new(&self.managed));
        let mut is_new =
            |cgroup: &&str| wanted.at(cgroup).is_some() && managed.at(cgroup).is_none();
        let new = present.iter().filter(|(cgroup, _)| is_new(cgroup));
        let new: Vec<(String, String)> = new
            .map(|(cgroup, pool)| ((*cgroup).into(), pool.name.clone()))
            .collect();
        self.managed.extend(new);
    }
}
