// SPDX-License-Identifier: GPL-2.0

//! Which cgroups are containers of the file.

use super::{Cgroups, names::Names};
use crate::config::{self, Config};
use ddabi::pool::Store;
use ddnl::Policy;
use std::collections::{BTreeMap, BTreeSet};

/// One container that exists.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Target {
    pub(super) name: String,
    /// What the file says; a controller may choose another.
    pub(super) weight: u32,
    pub(super) store: Store,
    /// Left alone if absent.
    pub(super) policy: Option<Policy>,
    /// Its place in the file.
    pub(super) container: usize,
}

/// What a cgroup is in the file, if anything.
pub(super) fn one(config: &Config, cgroup: &str, names: &Names) -> Option<Target> {
    let identity = names.of(cgroup);
    let at = config
        .containers
        .iter()
        .position(|one| one.selector.matches(cgroup, identity))?;
    let container = &config.containers[at];
    Some(Target {
        name: container.pool_name_of(cgroup, identity),
        weight: container.weight,
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
    before: &BTreeMap<String, Target>,
) -> (BTreeMap<String, Target>, BTreeSet<usize>) {
    let (mut targets, mut crowded) = (BTreeMap::new(), BTreeSet::new());
    let mut counts = vec![0; config.containers.len()];
    let mut ordered: Vec<&String> = cgroups.keys().collect();
    ordered.sort_by_cached_key(|cgroup| (!has_pool(cgroup), !before.contains_key(cgroup.as_str())));
    for cgroup in ordered {
        let Some(target) = one(config, cgroup, names) else {
            continue;
        };
        let count = &mut counts[target.container];
        if *count < config.containers[target.container].most() {
            *count += 1;
            targets.insert(cgroup.clone(), target);
        } else {
            crowded.insert(target.container);
        }
    }
    (targets, crowded)
}

/// Whether a container of the file may be a cgroup beside those it is.
pub(super) fn has_room(
    config: &Config,
    targets: &BTreeMap<String, Target>,
    cgroup: &str,
    container: usize,
) -> bool {
    let others = targets
        .iter()
        .filter(|(other, target)| target.container == container && *other != cgroup);
    others.count() < config.containers[container].most()
}

/// The store as this version of the modules knows it: no host offers the SSD tier yet. What may
/// be in memory too is kept there; what shall not be there is not kept at all until then.
fn store(wanted: config::Store) -> Store {
    match wanted {
        config::Store::Hybrid | config::Store::Mem => Store::Memory,
        config::Store::None | config::Store::Ssd => Store::None,
    }
}
