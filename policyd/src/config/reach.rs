// SPDX-License-Identifier: GPL-2.0-only

//! The part of the cgroup tree that a file can select.

use super::{Config, Selector};

/// The part of the cgroup tree in which containers of a file can be. Cgroups elsewhere are neither
/// kept nor watched, so that it does not matter how many of them users create.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reach(Vec<Selector>);

impl Reach {
    /// Returns whether a cgroup can be a container.
    pub fn has(&self, cgroup: &str) -> bool {
        self.0.iter().any(|selector| selector.may_mean(cgroup))
    }

    /// Returns whether a container can be below a path. The path of the root is empty.
    pub fn leads(&self, path: &str) -> bool {
        self.0.iter().any(|selector| selector.leads(path))
    }
}

impl Config {
    /// Returns the part of the tree in which containers of this file can be.
    pub fn reach(&self) -> Reach {
        let selectors = self.containers.iter().map(|one| one.selector.clone());
        Reach(selectors.collect())
    }
}
