// SPDX-License-Identifier: GPL-2.0-only

//! A container of the file.

use super::{Amount, Priority, Selector, Size, Store, Target, pattern};
use crate::discovery::Identity;
use ddabi::policy::Policy;

/// A container, or many of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// Its name; `{}` stands for the last part of the cgroup's path, or the runtime's name.
    pub name: String,
    /// Which cgroups it is.
    pub selector: Selector,
    /// How many cgroups it is at most, if its selector is a glob.
    pub most_cgroups: u32,
    /// Weight among the VM's pools; where targets decide, its share of what no container needs.
    pub weight: u32,
    /// Weight in the SSD tier among the VM's pools there, 0 to 10000.
    pub ssd_weight: u32,
    /// Milliseconds that a read of its disk takes, 0.001 to 1000; measured if absent.
    pub disk_ms: Option<f64>,
    /// Where its pages are kept.
    pub store: Store,
    /// Which of its pages are worth keeping; left alone if absent.
    pub policy: Option<Policy>,
    /// What it should reach.
    pub target: Option<Target>,
    /// Its rank, if the file gives one.
    pub priority: Option<Priority>,
    /// Least of the VM's share of the store.
    pub cache_floor: Option<Amount>,
    /// Most of the VM's share of the store.
    pub cache_ceiling: Option<Amount>,
    /// Guest memory that is protected (`memory.low`).
    pub memory_floor: Option<Size>,
    /// Guest memory that is never exceeded (`memory.max`).
    pub memory_ceiling: Option<Size>,
    /// Share of guest memory under pressure (thesis, section 4.3.1); the weight if absent.
    pub memory_weight: Option<u32>,
    /// Whether guest memory may be limited.
    pub manage_memory: bool,
    /// Whether it takes part in proportional reclaim.
    pub reclaim: bool,
    /// Whether cold pages are pushed out; as `[offload]` says if absent.
    pub offload: Option<bool>,
}

impl Container {
    /// Name of the pool for one of its cgroups, by the path alone.
    pub fn pool_name(&self, cgroup: &str) -> String {
        self.pool_name_of(cgroup, None)
    }

    /// Name of the pool for one of its cgroups.
    pub fn pool_name_of(&self, cgroup: &str, identity: Option<&Identity>) -> String {
        pattern::pool_name(&self.name, self.selector.is_glob(), cgroup, identity)
    }

    /// How many cgroups it may be: one unless many are meant.
    pub fn most(&self) -> usize {
        match self.selector.is_glob() {
            true => self.most_cgroups as usize,
            false => 1,
        }
    }

    /// Whether its weight is decided by what it needs.
    pub fn is_controlled(&self) -> bool {
        self.target.is_some() || self.priority.is_some()
    }

    /// Its rank.
    pub fn rank(&self) -> Priority {
        self.priority.unwrap_or(Priority::SILVER)
    }
}
