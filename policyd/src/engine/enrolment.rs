// SPDX-License-Identifier: GPL-2.0-only

//! Which pools are ours, and what is to be changed of them.

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

/// The pools that are ours.
#[derive(Debug, Default)]
pub(super) struct Enrolment {
    /// Cgroups whose pools are ours to change and to remove, and their names as the
    /// module lists them.
    pub(super) managed: BTreeMap<String, String>,
    pub(super) retries: Retries,
    /// Changes of pools that were found to be needed, until anything else happens.
    pub(super) changes: VecDeque<Action>,
}

/// Weights by container, where they are not what the file says.
#[derive(Clone, Copy)]
pub(super) struct Weights<'a> {
    /// In the memory tier, the default pool's included.
    pub(super) memory: &'a BTreeMap<String, u32>,
    /// In the SSD tier.
    pub(super) ssd: &'a BTreeMap<String, u32>,
}

impl Enrolment {
    /// The next change. To compare all pools is dear, and one comparison finds many.
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
            // What may be tried again and is not tried now is not wanted any more.
            self.retries.forget_due(now);
        }
        next
    }

    /// Forgets cgroups that are no containers any more and whose pools are gone.
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
            // Of few cgroups the pool is that of one that died.
            let mut lingers = || {
                paths
                    .get_or_insert_with(|| view.paths())
                    .contains(&**cgroup)
            };
            is_wanted || has_pool || lingers()
        });
    }

    /// The pool of a wanted cgroup is ours, even if it was made by hand.
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
