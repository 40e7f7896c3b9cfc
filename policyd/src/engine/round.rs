// SPDX-License-Identifier: GPL-2.0-only

//! The inputs of decisions about guest memory.

use super::{
    Cgroups, Time, controller::Controller, matches::Matches, nest::ancestors, sample::Sample,
};

/// A measurement, with the state that decisions about guest memory need.
pub(super) struct Round<'a> {
    pub(super) now: Time,
    pub(super) matches: Matches<'a>,
    pub(super) cgroups: &'a Cgroups,
    pub(super) controller: &'a Controller,
    pub(super) sample: &'a Sample,
}

impl Round<'_> {
    /// Returns the bytes of page cache of the containers that take part in reclaim.
    pub(super) fn cache(&self) -> u64 {
        let takes_part = |cgroup: &str| {
            let container = self.matches.container(cgroup);
            container.is_some_and(|container| container.reclaim)
        };
        // The ancestor's figure includes its descendants.
        self.sample
            .containers
            .iter()
            .filter(|(cgroup, _)| takes_part(cgroup) && !ancestors(cgroup).any(takes_part))
            .map(|(_, reading)| reading.file)
            .fold(0, u64::saturating_add)
    }
}
