// SPDX-License-Identifier: GPL-2.0

//! The third knob: guest memory (thesis, section 5.3.1).
//!
//! Only for containers where `manage_memory` is on. While memory is short, or a container that
//! lives from anonymous memory needs more of it, readers of files give way: the pages they lose
//! are kept by the store. The lower class gives first, never below what is anonymous and a margin.
//! When there is room again the limits are lifted, step by step, and vanish.

use super::{character::Character, sample::Machine};
use crate::config::Priority;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Limits of a cgroup in bytes; what is absent is as it was before us.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
pub struct Limits {
    /// `memory.low`: protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<u64>,
    /// `memory.high`: reclaimed above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<u64>,
    /// `memory.max`: never exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
}

/// A container whose memory is managed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Managed {
    pub(super) rank: Priority,
    pub(super) character: Character,
    /// It misses its target, or its anonymous pages come and go.
    pub(super) needy: bool,
    pub(super) current: u64,
    pub(super) anon: u64,
    pub(super) floor: Option<u64>,
    pub(super) ceiling: Option<u64>,
}

/// Decides limits, a step at a time.
#[derive(Debug, Default)]
pub(super) struct Memory {
    limits: BTreeMap<String, Limits>,
    /// Rounds in a row with room for everybody.
    calm: u32,
}

/// Nobody is squeezed closer to its anonymous memory than this.
const LEAST_MARGIN: u64 = 32 << 20;
/// Memory is short below this part, and there is room again above the other.
const SHORT: f64 = 0.10;
const ROOM: f64 = 0.25;
/// Rounds of room before limits are lifted.
const CALM: u32 = 6;
/// Part of its memory that a container gives, or gets back, in a round.
const STEP: f64 = 0.10;
/// What a container that needs more is helped with in a round.
const HELP: u64 = 64 << 20;
/// Changes smaller than this part are not worth making.
const SAME: f64 = 0.03;

impl Memory {
    /// The limits that were decided last.
    pub(super) fn limits(&self, cgroup: &str) -> Limits {
        self.limits.get(cgroup).copied().unwrap_or_default()
    }

    /// Decides the limits of all containers whose memory is managed.
    pub(super) fn decide(
        &mut self,
        machine: &Machine,
        managed: &BTreeMap<String, Managed>,
    ) -> &BTreeMap<String, Limits> {
        self.limits.retain(|cgroup, _| managed.contains_key(cgroup));
        let part = machine.available as f64 / machine.total.max(1) as f64;
        let help = managed
            .values()
            .filter(|one| one.needy && one.character == Character::Anonymous)
            .count() as u64
            * HELP;
        let wanted = (machine.total as f64 * SHORT) as u64;
        // The readers' cache counts as available, but the kernel would rather swap the others
        // than take it while it is read: it helps nobody unless it is taken from them.
        let cached: u64 = managed
            .values()
            .filter(|one| one.character != Character::Anonymous)
            .map(|one| one.current.saturating_sub(one.anon))
            .fold(0, u64::saturating_add);
        let others = machine.available.saturating_sub(cached);
        let shortage = wanted
            .saturating_add(help)
            .saturating_sub(machine.available)
            .max(help.saturating_sub(others));
        self.calm = if part > ROOM && help == 0 {
            self.calm + 1
        } else {
            0
        };
        let gives = givers(managed, shortage);
        for (cgroup, one) in managed {
            let limits = self.limits.entry(cgroup.clone()).or_default();
            let least = one.least();
            limits.max = one.ceiling.map(|ceiling| ceiling.max(least));
            limits.low = match one.character {
                Character::Anonymous => steady(limits.low, Some(least)),
                _ => one.floor,
            };
            limits.high = match (gives.get(cgroup), limits.high) {
                (Some(gives), high) => {
                    let now = high.map_or(one.current, |high| high.min(one.current));
                    steady(high, Some(now.saturating_sub(*gives).max(least)))
                }
                (None, Some(high)) if self.calm >= CALM => {
                    let higher = high.saturating_add((high as f64 * STEP) as u64);
                    // Far above what is used a limit is none.
                    (higher < one.current.saturating_mul(3) / 2).then_some(higher.max(least))
                }
                (None, high) => high.map(|high| high.max(least)),
            };
        }
        &self.limits
    }
}

impl Managed {
    /// The least it may be squeezed to.
    fn least(&self) -> u64 {
        let margin = (self.anon / 10).max(LEAST_MARGIN);
        self.anon
            .saturating_add(margin)
            .max(self.floor.unwrap_or(0))
    }
}

/// Who gives how much: readers of files before others, lower classes before higher ones.
fn givers(managed: &BTreeMap<String, Managed>, mut shortage: u64) -> BTreeMap<&String, u64> {
    let mut order: Vec<(&String, &Managed)> = managed
        .iter()
        .filter(|(_, one)| one.character != Character::Anonymous)
        .collect();
    order.sort_by_key(|(cgroup, one)| (one.rank, one.character == Character::Mixed, *cgroup));
    let mut gives = BTreeMap::new();
    for (cgroup, one) in order {
        let most = one.current.saturating_sub(one.least());
        let step = ((one.current as f64 * STEP) as u64).min(most).min(shortage);
        if step > 0 {
            gives.insert(cgroup, step);
            shortage -= step;
        }
    }
    gives
}

/// The old value, if the new one is about the same.
fn steady(old: Option<u64>, new: Option<u64>) -> Option<u64> {
    match (old, new) {
        (Some(old), Some(new)) if new <= old && old - new < (old as f64 * SAME) as u64 => Some(old),
        _ => new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 30;

    fn machine(available: u64) -> Machine {
        Machine {
            total: 8 * GIB,
            available,
            ..Machine::default()
        }
    }

    fn one(character: Character, current: u64, anon: u64) -> Managed {
        Managed {
            rank: Priority::SILVER,
            character,
            needy: false,
            current,
            anon,
            floor: None,
            ceiling: None,
        }
    }

    fn pair(redis_needs: bool) -> BTreeMap<String, Managed> {
        let redis = Managed {
            needy: redis_needs,
            ..one(Character::Anonymous, 2 * GIB, 2 * GIB)
        };
        let web = one(Character::File, 4 * GIB, GIB / 4);
        BTreeMap::from([("/redis".into(), redis), ("/web".into(), web)])
    }

    #[test]
    fn with_room_nothing_is_limited() {
        let mut memory = Memory::default();
        let limits = memory.decide(&machine(3 * GIB), &pair(false));
        assert_eq!(limits["/web"], Limits::default());
        assert!(limits["/redis"].low.unwrap() > 2 * GIB && limits["/redis"].high.is_none());
    }

    #[test]
    fn readers_of_files_give_way_and_get_it_back() {
        let mut memory = Memory::default();
        let high = memory.decide(&machine(GIB / 2), &pair(true))["/web"].high;
        assert!(high.unwrap() < 4 * GIB && high.unwrap() > 3 * GIB);
        let mut lifted = false;
        for _ in 0..40 {
            lifted |= memory.decide(&machine(4 * GIB), &pair(false))["/web"]
                .high
                .is_none();
        }
        assert!(lifted);
    }

    #[test]
    fn cache_of_readers_is_no_help_to_who_swaps() {
        // All that is available is what the web server caches.
        let mut memory = Memory::default();
        let limits = memory.decide(&machine(3 * GIB), &pair(true)).clone();
        assert!(limits["/web"].high.is_some_and(|high| high < 4 * GIB));
        // With as much free beside it nobody gives.
        let mut memory = Memory::default();
        let limits = memory.decide(&machine(5 * GIB), &pair(true));
        assert_eq!(limits["/web"].high, None);
    }

    #[test]
    fn the_lower_class_gives_first() {
        let gold = Managed {
            rank: Priority::GOLD,
            ..one(Character::File, 4 * GIB, 0)
        };
        let bronze = Managed {
            rank: Priority::BRONZE,
            ..gold
        };
        let both = BTreeMap::from([("/a".into(), gold), ("/b".into(), bronze)]);
        let mut memory = Memory::default();
        let limits = memory.decide(&machine(machine(0).total / 10 - (GIB / 8)), &both);
        assert!(limits["/a"].high.is_none() && limits["/b"].high.is_some());
    }

    proptest! {
        /// No limit ever cuts into anonymous memory.
        #[test]
        fn anonymous_memory_is_safe(
            looks in prop::collection::vec((0..8 * GIB, 0..4 * GIB, 0..4 * GIB, any::<bool>()), 1..30),
            ceiling in prop::option::of(GIB..4 * GIB),
        ) {
            let mut memory = Memory::default();
            for (available, file, anon, needy) in looks {
                let web = Managed {
                    needy,
                    ceiling,
                    ..one(Character::File, file + anon, anon)
                };
                let all = BTreeMap::from([("/web".into(), web)]);
                let limits = memory.decide(&machine(available), &all)["/web"];
                for limit in [limits.high, limits.max].into_iter().flatten() {
                    prop_assert!(limit >= anon + LEAST_MARGIN);
                }
            }
        }
    }
}
