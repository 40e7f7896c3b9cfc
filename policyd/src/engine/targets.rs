// SPDX-License-Identifier: GPL-2.0

//! What each container should get.

use super::Cgroups;
use crate::config::Config;
use ddabi::pool::Store;
use std::collections::BTreeMap;

/// What one container should get. Service levels will stand beside the weight.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) weight: u32,
    pub(super) store: Store,
}

/// The targets of all cgroups that are containers.
pub(super) fn of(config: &Config, cgroups: &Cgroups) -> BTreeMap<String, Target> {
    let target = |cgroup: &String| {
        let container = config.container(cgroup)?;
        let target = Target {
            name: container.pool_name(cgroup),
            weight: container.weight,
            store: container.store,
        };
        Some((cgroup.clone(), target))
    };
    cgroups.keys().filter_map(target).collect()
}
