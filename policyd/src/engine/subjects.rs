// SPDX-License-Identifier: GPL-2.0-only

//! Which cgroups are containers of the file.

use super::{Cgroups, names::Names};
use crate::config::{self, Config, Container};
use ddabi::pool::Store;
use ddnl::Policy;
use std::collections::{BTreeMap, BTreeSet};

/// One container that exists.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Subject {
    pub(super) name: String,
    /// What the file says; a controller may choose another.
    pub(super) weight: u32,
    /// The same in the SSD tier; absent if it keeps no pages there.
    pub(super) ssd_weight: Option<u32>,
    pub(super) store: Store,
    /// Left alone if absent.
    pub(super) policy: Option<Policy>,
    /// Its place in the file.
    pub(super) container: usize,
}

/// The file, and the cgroups that are its containers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subjects<'a> {
    pub(super) config: &'a Config,
    pub(super) all: &'a BTreeMap<String, Subject>,
}

impl<'a> Subjects<'a> {
    /// What the file says of a cgroup, if that is a container.
    pub(super) fn container(self, cgroup: &str) -> Option<&'a Container> {
        let subject = self.all.get(cgroup)?;
        Some(&self.config.containers[subject.container])
    }

    /// All containers that exist, by cgroup.
    pub(super) fn iter(self) -> impl Iterator<Item = (&'a String, &'a Container)> + Clone {
        let containers = &self.config.containers;
        let entry =
            |(cgroup, subject): (&'a String, &'a Subject)| (cgroup, &containers[subject.container]);
        self.all.iter().map(entry)
    }
}

/// What a cgroup is in the file, if anything.
pub(super) fn one(config: &Config, cgroup: &str, names: &Names) -> Option<Subject> {
    let identity = names.of(cgroup);
    let at = config
        .containers
        .iter()
        .position(|one| one.selector.matches(cgroup, identity))?;
    let container = &config.containers[at];
    Some(Subject {
        name: container.pool_name_of(cgroup, identity),
        weight: container.weight,
        ssd_weight: Some(container.ssd_weight).filter(|_| container.store.has_ssd()),
        store: store(container.store),
        policy: container.policy,
        container: at,
    })
}

/// All cgroups that are containers, and the containers of the file that more cgroups match than
/// they may be. Those that have a pool stay, for a daemon that was killed may have enrolled them;
/// then those stay that were containers `before`.
pub(super) fn of(
    config: &Config,
    cgroups: &Cgroups,
    names: &Names,
    has_pool: impl Fn(&str) -> bool,
    before: &BTreeMap<String, Subject>,
) -> (BTreeMap<String, Subject>, BTreeSet<usize>) {
    let (mut subjects, mut crowded) = (BTreeMap::new(), BTreeSet::new());
    let mut counts = vec![0; config.containers.len()];
    let mut ordered: Vec<&String> = cgroups.keys().collect();
    ordered.sort_by_cached_key(|cgroup| (!has_pool(cgroup), !before.contains_key(cgroup.as_str())));
    for cgroup in ordered {
        let Some(subject) = one(config, cgroup, names) else {
            continue;
        };
        let count = &mut counts[subject.container];
        if *count < config.containers[subject.container].most() {
            *count += 1;
            subjects.insert(cgroup.clone(), subject);
        } else {
            crowded.insert(subject.container);
        }
    }
    (subjects, crowded)
}

/// Whether a container of the file may be a cgroup beside those it is.
pub(super) fn has_room(
    config: &Config,
    subjects: &BTreeMap<String, Subject>,
    cgroup: &str,
    container: usize,
) -> bool {
    let others = subjects
        .iter()
        .filter(|(other, subject)| subject.container == container && *other != cgroup);
    others.count() < config.containers[container].most()
}

fn store(wanted: config::Store) -> Store {
    match wanted {
        config::Store::Mem => Store::Memory,
        config::Store::Ssd => Store::Ssd,
        config::Store::Hybrid => Store::Hybrid,
        config::Store::None => Store::None,
    }
}
