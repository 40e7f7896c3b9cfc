// SPDX-License-Identifier: GPL-2.0-only

//! Decides limits of guest memory (thesis, section 5.3.1).
//!
//! It applies to containers with `manage_memory`. While memory is short, or a container that
//! depends on anonymous memory needs more of it, readers of files give up memory, because the store
//! keeps the pages that they lose. The lower class gives first. No container is limited below what
//! it cannot give (anonymous memory, kernel memory, locked pages) and a margin. A container that
//! did not give what the last step asked for, or whose tasks began to wait, is left alone for some
//! time: tasks above `memory.high` are put to sleep each time they return to user mode. When enough
//! memory is available again, the limits are raised step by step, and then removed.

use super::{character::Character, sample::Machine};
use crate::config::Priority;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Limits of a cgroup in bytes. An absent limit stands for the original value.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Limits {
    /// `memory.low`: memory that is protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<u64>,
    /// `memory.high`: memory above which the kernel reclaims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<u64>,
    /// `memory.max`: memory that is never exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
}

/// A container with managed memory, as it was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Managed {
    pub(super) rank: Priority,
    pub(super) character: Character,
    /// It misses its target, or has refaults of anonymous pages.
    pub(super) needy: bool,
    /// The container is not limited, because a nested one that must be spared would lose memory.
    pub(super) spared: bool,
    /// The last step is complete: no job for its limits runs.
    pub(super) settled: bool,
    /// Memory pressure (PSI full), in percent of time.
    pub(super) waits: f64,
    pub(super) current: u64,
    /// Bytes that it cannot give.
    pub(super) fixed: u64,
    pub(super) floor: Option<u64>,
    pub(super) ceiling: Option<u64>,
}

/// Decides limits step by step.
#[derive(Debug, Default)]
pub(super) struct Memory {
    states: BTreeMap<String, State>,
    /// Consecutive rounds with enough memory for all containers.
    calm: u32,
}

/// State of a container with managed memory.
#[derive(Clone, Debug, Default)]
struct State {
    limits: Limits,
    /// Bytes that it used when `high` was lowered last, until the result of that step is known.
    lowered: Option<u64>,
    /// Its pressure without a limit, in percent of time.
    waited: f64,
    /// Rounds until its limit may be lowered again.
    rest: u32,
}

/// The smallest margin between a limit and what a container cannot give, in bytes.
const MIN_MARGIN: u64 = 32 << 20;
/// Memory is short while the available part is below the first value, and there is enough of it
/// above the second one.
const SHORT: f64 = 0.10;
const ROOM: f64 = 0.25;
/// Rounds with enough memory before limits are raised.
const CALM: u32 = 6;
/// Part of its memory that a container gives up, or gets back, in a round.
const STEP: f64 = 0.10;
/// Bytes that a container in need is helped with in a round.
const HELP: u64 = 64 << 20;
/// Rounds for which a limit is not lowered after the container gave nothing, or its tasks began to
/// wait.
const REST: u32 = 12;
/// The most by which pressure may exceed that without a limit, in percent of time.
const WORSE: f64 = 20.0;
/// Changes of a limit by a smaller part are not made.
const SAME: f64 = 0.03;

impl Memory {
    /// Returns the limits that were decided last.
    pub(super) fn limits(&self, cgroup: &str) -> Limits {
        let state = self.states.get(cgroup);
        state.map(|state| state.limits).unwrap_or_default()
    }

    /// Forgets containers whose memory is not managed any more.
    pub(super) fn retain(&mut self, manages: impl Fn(&str) -> bool) {
        self.states.retain(|cgroup, _| manages(cgroup));
    }

    /// Decides the limits of all containers with managed memory.
    pub(super) fn decide(&mut self, machine: &Machine, managed: &BTreeMap<String, Managed>) {
        let part = machine.available as f64 / machine.total.max(1) as f64;
        let help = managed
            .values()
            .filter(|one| one.needy && one.character == Character::Anonymous)
            .count() as u64
            * HELP;
        let wanted = (machine.total as f64 * SHORT) as u64;
        // The page cache of readers counts as available. But while it is in use, the kernel would
        // rather swap others than reclaim it. It helps others only if limits take it from the
        // readers.
        let cached: u64 = managed
            .values()
            .filter(|one| one.character != Character::Anonymous)
            .map(|one| one.current.saturating_sub(one.fixed))
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
        for (cgroup, one) in managed {
            self.states.entry(cgroup.clone()).or_default().judge(one);
        }
        let gives = givers(managed, &self.states, shortage);
        for (cgroup, one) in managed {
            let state = self.states.entry(cgroup.clone()).or_default();
            let least = one.least();
            let limits = &mut state.limits;
            limits.max = one.ceiling.map(|ceiling| ceiling.max(least));
            limits.low = match one.character {
                Character::Anonymous => steady(limits.low, Some(least)),
                _ => one.floor,
            };
            let before = limits.high;
            limits.high = match (gives.get(cgroup), before) {
                _ if one.spared => None,
                (Some(gives), high) => {
                    let now = high.map_or(one.current, |high| high.min(one.current));
                    steady(high, Some(now.saturating_sub(*gives).max(least)))
                }
                (None, Some(high)) if self.calm >= CALM && one.settled => raised(high, one),
                (None, high) => high.map(|high| high.max(least)),
            };
            if limits.high < before.or(limits.high.map(|_| u64::MAX)) && limits.high.is_some() {
                state.lowered = Some(one.current);
            }
        }
    }
}

impl State {
    /// Evaluates the last step.
    fn judge(&mut self, one: &Managed) {
        if !one.settled {
            return;
        }
        self.rest = self.rest.saturating_sub(1);
        let Some(high) = self.limits.high else {
            (self.lowered, self.waited) = (None, one.waits);
            return;
        };
        // The kernel reclaims before the write of a lower limit returns. Memory that is still above
        // the limit then is memory that the container cannot give, whatever its statistics say.
        let least = |before: u64| before.saturating_sub(before.saturating_sub(high) / 2);
        let stuck = |before| one.current > high.max(least(before));
        if self.lowered.take().is_some_and(stuck) {
            let above = one.current.saturating_add(MIN_MARGIN);
            self.limits.high = Some(high.max(above));
            self.rest = REST;
        } else if one.waits > self.waited + WORSE {
            self.limits.high = raised(high, one);
            self.rest = REST;
        }
    }
}

/// Returns a limit that is one step higher, or none if that is far above the usage.
fn raised(high: u64, one: &Managed) -> Option<u64> {
    let higher = high.saturating_add((high as f64 * STEP) as u64);
    (higher < one.current.saturating_mul(3) / 2).then_some(higher.max(one.least()))
}

impl Managed {
    /// Returns the lowest limit that is allowed.
    fn least(&self) -> u64 {
        let margin = (self.fixed / 10).max(MIN_MARGIN);
        self.fixed
            .saturating_add(margin)
            .max(self.floor.unwrap_or(0))
    }
}

/// Returns the containers that give memory, and the bytes: readers of files before others, and
/// lower classes before higher ones.
fn givers<'a>(
    managed: &'a BTreeMap<String, Managed>,
    states: &BTreeMap<String, State>,
    mut shortage: u64,
) -> BTreeMap<&'a String, u64> {
    let rests = |cgroup: &String| states.get(cgroup).is_some_and(|state| state.rest > 0);
    let mut order: Vec<(&String, &Managed)> = managed
        .iter()
        .filter(|(_, one)| one.character != Character::Anonymous)
        .filter(|(cgroup, one)| one.settled && !one.spared && !rests(cgroup))
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

/// Returns the old value if the new one is about the same.
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
            spared: false,
            settled: true,
            waits: 0.0,
            current,
            fixed: anon,
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
    fn without_shortage_there_are_no_limits() {
        let mut memory = Memory::default();
        memory.decide(&machine(3 * GIB), &pair(false));
        assert_eq!(memory.limits("/web"), Limits::default());
        let redis = memory.limits("/redis");
        assert!(redis.low.unwrap() > 2 * GIB && redis.high.is_none());
    }

    #[test]
    fn readers_of_files_give_way_and_get_it_back() {
        let mut memory = Memory::default();
        memory.decide(&machine(GIB / 2), &pair(true));
        let high = memory.limits("/web").high;
        assert!(high.unwrap() < 4 * GIB && high.unwrap() > 3 * GIB);
        let mut lifted = false;
        for _ in 0..40 {
            memory.decide(&machine(4 * GIB), &pair(false));
            lifted |= memory.limits("/web").high.is_none();
        }
        assert!(lifted);
    }

    #[test]
    fn cache_of_readers_does_not_help_swapping_containers() {
        // All available memory is the web server's page cache.
        let mut memory = Memory::default();
        memory.decide(&machine(3 * GIB), &pair(true));
        let high = memory.limits("/web").high;
        assert!(high.is_some_and(|high| high < 4 * GIB));
        // With the same amount of free memory in addition, no container gives.
        let mut memory = Memory::default();
        memory.decide(&machine(5 * GIB), &pair(true));
        assert_eq!(memory.limits("/web").high, None);
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
        memory.decide(&machine(machine(0).total / 10 - (GIB / 8)), &both);
        assert!(memory.limits("/a").high.is_none() && memory.limits("/b").high.is_some());
    }

    /// Memory that a step asked for and did not get counts as memory that the container cannot
    /// give.
    #[test]
    fn containers_that_gave_nothing_are_left_alone_for_some_time() {
        let mut memory = Memory::default();
        let mut highs = Vec::new();
        for _ in 0..=REST {
            memory.decide(&machine(GIB / 2), &pair(false));
            highs.push(memory.limits("/web").high.unwrap());
        }
        assert!(highs[0] < 4 * GIB);
        assert!(highs[1..].iter().all(|high| *high > 4 * GIB), "{highs:?}");
        memory.decide(&machine(GIB / 2), &pair(false));
        assert!(memory.limits("/web").high.unwrap() < 4 * GIB);
    }

    /// While the kernel still reclaims, a step is not evaluated, and there is no further one.
    #[test]
    fn a_step_under_way_is_not_judged() {
        let mut memory = Memory::default();
        let mut all = pair(false);
        memory.decide(&machine(GIB / 2), &all);
        let high = memory.limits("/web").high.unwrap();
        let web = all.get_mut("/web").unwrap();
        web.settled = false;
        memory.decide(&machine(GIB / 2), &all);
        assert_eq!(memory.limits("/web").high, Some(high));
        let web = all.get_mut("/web").unwrap();
        (web.settled, web.current) = (true, high);
        memory.decide(&machine(GIB / 2), &all);
        assert!(memory.limits("/web").high.unwrap() < high);
    }

    #[test]
    fn containers_whose_tasks_wait_get_some_memory_back() {
        let mut memory = Memory::default();
        let mut all = pair(false);
        let mut squeeze = |memory: &mut Memory, waits: f64| {
            let high = memory.limits("/web").high;
            let web = all.get_mut("/web").unwrap();
            web.current = web.current.min(high.unwrap_or(u64::MAX));
            web.waits = waits;
            memory.decide(&machine(GIB / 2), &all);
            memory.limits("/web").high.unwrap()
        };
        // Its tasks waited without a limit, too.
        let first = squeeze(&mut memory, 30.0);
        let second = squeeze(&mut memory, 45.0);
        assert!(second < first);
        assert!(squeeze(&mut memory, 80.0) > second);
        let held = squeeze(&mut memory, 40.0);
        assert_eq!(squeeze(&mut memory, 40.0), held);
    }

    #[test]
    fn limits_are_lifted_after_some_time_of_room() {
        let mut memory = Memory::default();
        let mut all = pair(true);
        memory.decide(&machine(GIB / 2), &all);
        let high = memory.limits("/web").high.unwrap();
        all.get_mut("/web").unwrap().current = high;
        all.get_mut("/redis").unwrap().needy = false;
        for look in 1..CALM {
            memory.decide(&machine(4 * GIB), &all);
            assert_eq!(memory.limits("/web").high, Some(high), "{look}");
        }
        memory.decide(&machine(4 * GIB), &all);
        assert!(
            memory
                .limits("/web")
                .high
                .is_none_or(|raised| raised > high)
        );
    }

    #[test]
    fn readers_of_files_alone_give_before_others() {
        let mixed = one(Character::Mixed, 4 * GIB, 0);
        let file = one(Character::File, 4 * GIB, 0);
        let both = BTreeMap::from([("/a".into(), mixed), ("/b".into(), file)]);
        let mut memory = Memory::default();
        memory.decide(&machine(machine(0).total / 10 - (GIB / 8)), &both);
        assert!(memory.limits("/a").high.is_none() && memory.limits("/b").high.is_some());
    }

    proptest! {
        /// Small changes of usage do not change limits, but a limit never stays below what a
        /// container needs.
        #[test]
        fn limits_follow_what_grows(
            steps in prop::collection::vec((-5i64..=5, 0..2 * GIB), 1..40),
        ) {
            let mut memory = Memory::default();
            let mut fixed = GIB;
            for (percent, available) in steps {
                fixed = fixed.saturating_add_signed(fixed as i64 / 100 * percent);
                let redis = one(Character::Anonymous, fixed, fixed);
                let web = one(Character::File, fixed + GIB / 10, fixed);
                let all = BTreeMap::from([("/redis".into(), redis), ("/web".into(), web)]);
                memory.decide(&machine(available), &all);
                let low = memory.limits("/redis").low.unwrap();
                prop_assert!(low >= fixed + fixed / 10, "{low} of {fixed}");
                let high = memory.limits("/web").high.unwrap_or(u64::MAX);
                prop_assert!(high >= fixed + fixed / 10, "{high} of {fixed}");
            }
        }

        /// No limit is below what a container cannot give.
        #[test]
        fn limits_never_reach_memory_that_cannot_be_given(
            looks in prop::collection::vec(
                (0..8 * GIB, 0..4 * GIB, 0..4 * GIB, any::<[bool; 2]>(), 0.0..100.0f64),
                1..30,
            ),
            ceiling in prop::option::of(GIB..4 * GIB),
        ) {
            let mut memory = Memory::default();
            for (available, file, fixed, [needy, settled], waits) in looks {
                let web = Managed {
                    needy,
                    settled,
                    waits,
                    ceiling,
                    ..one(Character::File, file + fixed, fixed)
                };
                let all = BTreeMap::from([("/web".into(), web)]);
                memory.decide(&machine(available), &all);
                let limits = memory.limits("/web");
                for limit in [limits.high, limits.max].into_iter().flatten() {
                    prop_assert!(limit >= fixed + MIN_MARGIN);
                }
            }
        }
    }
}
