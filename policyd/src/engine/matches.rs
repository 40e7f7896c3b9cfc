// SPDX-License-Identifier: GPL-2.0-only

//! The cgroups that match containers of the configuration.

use super::{Cgroups, names::Names};
use crate::config::{Config, Container};
use ddabi::pool::{SsdAdmit, Store};
use ddnl::Policy;
use std::collections::{BTreeMap, BTreeSet};

/// An existing cgroup that matches a container of the configuration, with the settings of its pool.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Match {
    /// The name of the pool.
    pub(super) name: String,
    /// The configured weight. A controller may choose another.
    pub(super) weight: u32,
    /// The configured weight in the SSD tier; absent if the store keeps no pages there.
    pub(super) ssd_weight: Option<u32>,
    pub(super) store: Store,
    /// The configured policy. If absent, the pool keeps the one that it has.
    pub(super) policy: Option<Policy>,
    /// The configured pages that go to the SSD tier. If absent, the pool keeps its setting.
    pub(super) ssd_admit: Option<SsdAdmit>,
    /// The index of the container in [`Config::containers`].
    pub(super) container: usize,
}

/// The configuration, and the existing cgroups that match its containers. They are passed together
/// because a [`Match`] refers to its container by an index into the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matches<'a> {
    pub(super) config: &'a Config,
    /// The matches by the paths of their cgroups.
    pub(super) by_cgroup: &'a BTreeMap<String, Match>,
}

impl<'a> Matches<'a> {
    /// Returns the container that a cgroup matches.
    pub(super) fn container(self, cgroup: &str) -> Option<&'a Container> {
        let matched = self.by_cgroup.get(cgroup)?;
        Some(&self.config.containers[matched.container])
    }

    /// Returns all matching cgroups and their containers.
    pub(super) fn iter(self) -> impl Iterator<Item = (&'a String, &'a Container)> + Clone {
        let containers = &self.config.containers;
        let entry =
            |(cgroup, matched): (&'a String, &'a Match)| (cgroup, &containers[matched.container]);
        self.by_cgroup.iter().map(entry)
    }
}

/// Returns the match of a cgroup with the first container that selects it.
pub(super) fn find(config: &Config, cgroup: &str, names: &Names) -> Option<Match> {
    let identity = names.of(cgroup);
    let at = config
        .containers
        .iter()
        .position(|one| one.selector.matches(cgroup, identity))?;
    let container = &config.containers[at];
    Some(Match {
        name: container.pool_name_of(cgroup, identity),
        weight: container.weight,
        ssd_weight: Some(container.ssd_weight).filter(|_| container.store.has_ssd()),
        store: container.store,
        policy: container.policy,
        ssd_admit: container.ssd_admit,
        container: at,
    })
}

/// Returns all matches, and the indexes of containers that more cgroups match than the
/// configuration allows. Of those, cgroups with a pool are preferred, because a daemon that was
/// killed may have enrolled them; then those that matched `before`.
pub(super) fn find_all(
    config: &Config,
    cgroups: &Cgroups,
    names: &Names,
    has_pool: impl Fn(&str) -> bool,
    before: &BTreeMap<String, Match>,
) -> (BTreeMap<String, Match>, BTreeSet<usize>) {
    let (mut matches, mut crowded) = (BTreeMap::new(), BTreeSet::new());
    let mut counts = vec![0; config.containers.len()];
    let mut ordered: Vec<&String> = cgroups.keys().collect();
    ordered.sort_by_cached_key(|cgroup| (!has_pool(cgroup), !before.contains_key(cgroup.as_str())));
    for cgroup in ordered {
        let Some(matched) = find(config, cgroup, names) else {
            continue;
        };
        let count = &mut counts[matched.container];
        if *count < config.containers[matched.container].max_cgroups() {
            *count += 1;
            matches.insert(cgroup.clone(), matched);
        } else {
            crowded.insert(matched.container);
        }
    }
    (matches, crowded)
}

/// Returns whether the configuration allows one more cgroup, `cgroup`, for a container.
pub(super) fn has_room(
    config: &Config,
    matches: &BTreeMap<String, Match>,
    cgroup: &str,
    container: usize,
) -> bool {
    let others = matches
        .iter()
        .filter(|(other, matched)| matched.container == container && *other != cgroup);
    others.count() < config.containers[container].max_cgroups()
}
