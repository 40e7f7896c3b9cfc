// SPDX-License-Identifier: GPL-2.0-only

//! A container of the configuration file.

use super::{Amount, Priority, Selector, Size, Target, pattern};
use crate::discovery::Identity;
use ddabi::{
    policy::Policy,
    pool::{SsdAdmit, Store},
};

/// An entry of the file: a container, or several that one glob selects.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// Name of the pool, in which `{}` stands for the name that the runtime gives, or else for the
    /// last component of the cgroup's path.
    pub name: String,
    /// Selects the cgroups.
    pub selector: Selector,
    /// The most cgroups that a glob selects.
    pub most_cgroups: u32,
    /// Weight among the VM's pools. Where targets decide, it determines the share of pages that no
    /// container needs.
    pub weight: u32,
    /// Weight among the VM's pools in the SSD tier, 0 to 10000.
    pub ssd_weight: u32,
    /// Milliseconds that a read of its disk takes, 0.001 to 1000; measured if absent.
    pub disk_ms: Option<f64>,
    /// The tiers that keep its pages.
    pub store: Store,
    /// The policy that chooses pages. If absent, the pool keeps the one that it has.
    pub policy: Option<Policy>,
    /// Which pages go to the SSD tier. If absent, the pool keeps the setting that it has.
    pub ssd_admit: Option<SsdAdmit>,
    /// The target, if there is one.
    pub target: Option<Target>,
    /// The priority, if the file has one.
    pub priority: Option<Priority>,
    /// The smallest part of the VM's share that the container gets.
    pub cache_floor: Option<Amount>,
    /// The largest part of the VM's share that the container gets.
    pub cache_ceiling: Option<Amount>,
    /// Guest memory that is protected (`memory.low`).
    pub memory_floor: Option<Size>,
    /// The most guest memory (`memory.max`).
    pub memory_ceiling: Option<Size>,
    /// Weight among containers when guest memory is short (thesis, section 4.3.1). If absent, it is
    /// that of the cache.
    pub memory_weight: Option<u32>,
    /// Whether guest memory may be limited.
    pub manage_memory: bool,
    /// Whether it takes part in proportional reclaim.
    pub reclaim: bool,
    /// Whether cold pages are offloaded. If absent, the section `[offload]` decides.
    pub offload: Option<bool>,
}

impl Container {
    /// Returns the name of a cgroup's pool, judged by the path alone.
    pub fn pool_name(&self, cgroup: &str) -> String {
        self.pool_name_of(cgroup, None)
    }

    /// Returns the name of a cgroup's pool.
    pub fn pool_name_of(&self, cgroup: &str, identity: Option<&Identity>) -> String {
        pattern::pool_name(&self.name, self.selector.is_glob(), cgroup, identity)
    }

    /// Returns the maximum number of cgroups that the entry selects, which is one unless the
    /// selector is a glob.
    pub fn max_cgroups(&self) -> usize {
        match self.selector.is_glob() {
            true => self.most_cgroups as usize,
            false => 1,
        }
    }

    /// Returns whether its weight depends on what it needs.
    pub fn is_controlled(&self) -> bool {
        self.target.is_some() || self.priority.is_some()
    }

    /// Returns the setting by which the host keeps no page of the container, if there is one.
    pub fn uncached(&self) -> Option<&'static str> {
        let is_shut = |ceiling| ceiling == Amount::Bytes(0) || ceiling == Amount::Part(0.0);
        match self.store {
            Store::None => Some("`store = \"none\"`"),
            // Pages of the store `hybrid` that have no room in memory are kept on SSDs.
            Store::Memory if self.cache_ceiling.is_some_and(is_shut) => {
                Some("`cache_ceiling` of 0")
            }
            Store::Memory | Store::Ssd | Store::Hybrid => None,
        }
    }

    /// Returns its priority, which is that of `silver` by default.
    pub fn rank(&self) -> Priority {
        self.priority.unwrap_or(Priority::SILVER)
    }
}
