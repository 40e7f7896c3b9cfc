// SPDX-License-Identifier: GPL-2.0-only

//! Nested containers.
//!
//! The charge of a cgroup includes that of its descendants, and reclaim from a cgroup takes from
//! these as well. A container with nested ones therefore counts with its own part only, and gives
//! nothing while reclaim could take memory from a nested one that must be spared.

use super::{round::Round, sample::Reading};
use crate::config::{Container, Priority};
use std::collections::BTreeMap;

/// The containers that are nested in one.
#[derive(Debug, Default)]
pub(super) struct Nested {
    current: u64,
    anon: u64,
    locked: u64,
    pub(super) file: u64,
    /// The highest priority among them.
    highest: Option<Priority>,
    /// One of them does not take part in proportional reclaim.
    pub(super) no_reclaim: bool,
    /// One of them is not offloaded, or misses its target.
    pub(super) no_offload: bool,
    /// The memory of one of them is not managed.
    pub(super) unmanaged: bool,
}

/// Returns the ancestors of a cgroup without the root, from the outermost inwards.
pub(crate) fn ancestors(cgroup: &str) -> impl Iterator<Item = &str> {
    let ends = cgroup.match_indices('/').skip(1);
    ends.filter_map(|(end, _)| cgroup.get(..end))
}

/// Returns the containers that have nested ones.
pub(super) fn of<'a>(round: &Round<'a>) -> BTreeMap<&'a str, Nested> {
    let mut all: BTreeMap<&str, Nested> = BTreeMap::new();
    for (cgroup, container) in round.matches.iter() {
        let outer =
            || ancestors(cgroup).filter(|outer| round.matches.by_cgroup.contains_key(*outer));
        for outer in outer() {
            all.entry(outer).or_default().join(round, cgroup, container);
        }
        // The charge of a container includes deeper ones, so that only the nearest ancestor
        // subtracts it.
        let nearest = outer().last().and_then(|outer| all.get_mut(outer));
        if let (Some(inner), Some(reading)) = (nearest, round.sample.containers.get(cgroup)) {
            inner.current = inner.current.saturating_add(reading.current);
            inner.anon = inner.anon.saturating_add(reading.anon);
            inner.locked = inner.locked.saturating_add(reading.locked);
            inner.file = inner.file.saturating_add(reading.file);
        }
    }
    all
}

impl Nested {
    fn join(&mut self, round: &Round<'_>, cgroup: &str, container: &Container) {
        self.highest = self.highest.max(Some(container.rank()));
        self.no_reclaim |= !container.reclaim;
        let member = round.controller.member(cgroup);
        let misses = member.is_some_and(super::member::Member::misses_target);
        let offload = container
            .offload
            .unwrap_or(round.matches.config.offload.enabled);
        self.no_offload |= misses || !offload;
        self.unmanaged |= !container.manage_memory;
    }

    /// Returns whether a nested container has a higher priority than this one.
    pub(super) fn is_above(&self, rank: Priority) -> bool {
        self.highest.is_some_and(|highest| highest > rank)
    }

    /// Returns the part of the floor that the container's own memory must keep. The floor is that
    /// of the whole.
    pub(super) fn own_floor(&self, container: &Container, reading: &Reading) -> u64 {
        let inside = reading.current - self.own(reading).current;
        let floor = container.memory_floor.map_or(0, |floor| floor.0);
        floor.saturating_sub(inside)
    }

    /// Returns the container's own part of its charge.
    pub(super) fn own(&self, reading: &Reading) -> Reading {
        Reading {
            current: reading.current.saturating_sub(self.current),
            anon: reading.anon.saturating_sub(self.anon),
            locked: reading.locked.saturating_sub(self.locked),
            file: reading.file.saturating_sub(self.file),
            ..reading.clone()
        }
    }
}
