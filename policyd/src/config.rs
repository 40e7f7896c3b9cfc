// SPDX-License-Identifier: GPL-2.0

//! The configuration file, parsed into what cannot be wrong. `docs/policyd.md` describes it.

mod parse;
mod pattern;

pub use parse::Problem;
pub use pattern::Pattern;

use ddabi::pool::Store;
use std::{path::PathBuf, time::Duration};

/// Everything the file says, or would say if it said nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How often the module's state is compared with the wanted one.
    pub interval: Duration,
    /// Where cgroup v2 is mounted.
    pub cgroup_root: PathBuf,
    /// Weight of everything outside containers; `None` leaves it alone.
    pub default_pool_weight: Option<u32>,
    /// Containers; the first one that matches a cgroup counts.
    pub containers: Vec<Container>,
}

/// A container, or many of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// Its name; `{}` stands for the last part of the cgroup's path.
    pub name: String,
    /// Which cgroups it is.
    pub cgroup: Pattern,
    /// Weight among the VM's pools.
    pub weight: u32,
    /// Where its pages are kept.
    pub store: Store,
}

impl Config {
    /// Reads a file's text; all problems are told, not only the first.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        parse::config(text)
    }

    /// The container a cgroup is.
    pub fn container(&self, cgroup: &str) -> Option<&Container> {
        self.containers
            .iter()
            .find(|container| container.cgroup.matches(cgroup))
    }
}

impl Container {
    /// Name of the pool for one of its cgroups.
    pub fn pool_name(&self, cgroup: &str) -> String {
        pattern::pool_name(&self.name, &self.cgroup, cgroup)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            cgroup_root: "/sys/fs/cgroup".into(),
            default_pool_weight: None,
            containers: Vec::new(),
        }
    }
}
