// SPDX-License-Identifier: GPL-2.0-only

//! Which part of the cgroup tree a file speaks of.

use super::{Config, Selector};

/// The part of the cgroup tree where containers of a file may be. Of the rest nothing is kept and
/// nothing is watched, whatever users make there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reach(Vec<Selector>);

impl Reach {
    /// Whether a cgroup may be a container.
    pub fn has(&self, cgroup: &str) -> bool {
        self.0.iter().any(|selector| selector.may_mean(cgroup))
    }

    /// Whether a container may be below a path; the root is the empty one.
    pub fn leads(&self, path: &str) -> bool {
        self.0.iter().any(|selector| selector.leads(path))
    }
}

impl Config {
    /// Where containers of this file may be.
    pub fn reach(&self) -> Reach {
        let selectors = self.containers.iter().map(|one| one.selector.clone());
        Reach(selectors.collect())
    }
}
