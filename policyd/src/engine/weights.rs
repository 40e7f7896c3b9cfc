// SPDX-License-Identifier: GPL-2.0

//! The weights that give each container its target.

use super::targets::Target;
use ddabi::pool::Store;
use std::collections::BTreeMap;

/// What the module is told about one container.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Share {
    pub(super) weight: u32,
    pub(super) store: Store,
}

/// Today a target names its weight; a controller that measures would choose it here.
pub(super) fn of(targets: &BTreeMap<String, Target>) -> BTreeMap<String, Share> {
    let share = |(cgroup, target): (&String, &Target)| {
        let share = Share {
            weight: target.weight,
            store: target.store,
        };
        (cgroup.clone(), share)
    };
    targets.iter().map(share).collect()
}
