// SPDX-License-Identifier: GPL-2.0-only

use super::*;
use crate::number::tests::Plain;
use alloc::{vec, vec::Vec};
use proptest::prelude::*;

const ALL: Share = Share { weight: 1, all: 1 };
const HALF: Share = Share { weight: 5, all: 10 };

/// VMs with their containers, which write to a device.
struct World {
    budget: Budget<Plain>,
    vms: Vec<(Spending<Plain>, Share)>,
    containers: Vec<(usize, Spending<Plain>, Share)>,
}

impl World {
    fn new(rate: u64) -> Self {
        let budget = Budget::new();
        budget.set(rate);
        Self {
            budget,
            vms: Vec::new(),
            containers: Vec::new(),
        }
    }

    /// Adds a VM and its containers with their weights. The sum of the weights of containers may be
    /// larger, if some of them do not write. Returns the first container.
    fn add(&mut self, share: Share, weights: &[u64], all: u64) -> usize {
        let vm = self.vms.len();
        let first = self.containers.len();
        self.vms.push((Spending::new(), share));
        for weight in weights {
            let share = Share {
                weight: *weight,
                all,
            };
            self.containers.push((vm, Spending::new(), share));
        }
        first
    }

    /// Has a container write pages. Returns whether it may.
    fn write(&self, container: usize, pages: u64, now: u64) -> bool {
        let (vm, spending, share) = &self.containers[container];
        let container = Writer {
            spending,
            share: *share,
        };
        let (spending, share) = &self.vms[*vm];
        let vm = Writer {
            spending,
            share: *share,
        };
        self.budget.spend(vm, container, pages, now).is_some()
    }

    /// Has a container write as much as it may. Returns the number of pages.
    fn exhaust(&self, container: usize, now: u64) -> u64 {
        (0..).take_while(|_| self.write(container, 1, now)).count() as u64
    }

    /// Has all of these containers write as much as they may, in this order, for 22 seconds.
    /// Returns the number of pages that each of them has written in the last 20, because the first
    /// one may write what the others have left in the second before.
    fn compete(&self, order: &[usize]) -> Vec<u64> {
        let mut written = vec![0; self.containers.len()];
        for step in 0..22_000u64 {
            let now = 5 * SECOND + step * SECOND / 1000;
            for container in order {
                let pages = self.exhaust(*container, now);
                written[*container] += if step < 2_000 { 0 } else { pages };
            }
        }
        written
    }
}

/// Creates a world with one VM, which has one container.
fn alone(rate: u64) -> World {
    let mut world = World::new(rate);
    world.add(ALL, &[1], 1);
    world
}

#[test]
fn without_a_limit_all_may_be_written() {
    let world = alone(0);
    let spend = |pages, now| world.write(0, pages, now);
    assert!(spend(u64::MAX, 0));
    world.budget.set(10);
    assert!(spend(10, 0) && !spend(1, 0));
    assert!(spend(50, 2 * SECOND) && !spend(1, 6 * SECOND));
    assert!(spend(1, 7 * SECOND));
    world.budget.set(0);
    assert!(spend(1 << 40, 0));
}

#[test]
fn pages_that_are_not_written_are_given_back() {
    let mut world = World::new(10);
    let own = world.add(ALL, &[1], 1);
    let other = world.add(ALL, &[1], 1);
    assert!(world.write(own, 10, SECOND) && !world.write(other, 10, SECOND));
    world.budget.give_back(SECOND);
    assert!(world.write(other, 10, SECOND));
}

#[test]
fn a_budget_that_was_set_later_is_not_given_back_more_than_was_spent() {
    let mut world = World::new(0);
    let own = world.add(ALL, &[1], 1);
    assert!(world.write(own, 5, SECOND));
    world.budget.set(10);
    world.budget.give_back(5 * SECOND);
    assert!(world.write(own, 1, SECOND));
}

#[test]
fn a_larger_budget_does_not_pay_for_a_smaller_one() {
    let mut world = World::new(1);
    let own = world.add(ALL, &[1], 1);
    assert!(world.write(own, 1000, SECOND) && !world.write(own, 1, SECOND));
    world.budget.set(1000);
    assert!(world.write(own, 1, SECOND));
}

#[test]
fn a_writer_that_had_no_weight_for_a_moment_has_its_share_again() {
    let mut world = World::new(100);
    let own = world.add(HALF, &[1], 1);
    let other = world.add(HALF, &[1], 1);
    world.vms[own].1.weight = 0;
    assert!(world.write(own, 1, SECOND));
    world.vms[own].1.weight = HALF.weight;
    let now = 5 * SECOND;
    world.exhaust(other, now);
    assert!(world.write(own, 10, now));
}

/// A run of pages can cost a writer of little weight more than its share of a second.
#[test]
fn weights_hold_for_runs_that_cost_more_than_a_second() {
    const RUN: u64 = 32;
    for (rate, weights) in [
        (5120, &[900, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1][..]),
        (150, &[60, 10, 10, 10, 10]),
    ] {
        let mut world = World::new(rate);
        let all = weights.iter().sum();
        for &weight in weights {
            world.add(Share { weight, all }, &[1], 1);
        }
        let mut written = vec![0; weights.len()];
        for now in (SECOND..200 * SECOND).step_by(SECOND as usize / 100) {
            // The writers of little weight come first.
            for writer in (0..weights.len()).rev() {
                while world.write(writer, RUN, now) {
                    written[writer] += RUN;
                }
            }
        }
        let part = written[0] as f64 / written.iter().sum::<u64>() as f64;
        let wanted = weights[0] as f64 / all as f64;
        assert!(
            (part - wanted).abs() <= 0.06,
            "{part} of {wanted} at {rate}"
        );
    }
}

#[test]
fn a_writer_without_weight_gets_what_others_leave() {
    let none = Share { weight: 0, all: 10 };
    for (vm, weight) in [(none, 10), (HALF, 0)] {
        let mut world = World::new(100);
        let own = world.add(vm, &[weight], 10);
        let other = world.add(HALF, &[10], 10);
        assert_eq!(
            (world.exhaust(own, SECOND), world.exhaust(own, SECOND)),
            (50, 0)
        );
        assert!(world.write(other, 50, SECOND));
        assert_eq!(world.exhaust(own, 3 * SECOND), 50);
    }
}

proptest! {
    /// In any time, no more is written than the rate allows and what one second more does; and a
    /// writer that never stops uses all of it, whatever its share of its VM and that of the VM are.
    #[test]
    fn the_rate_is_kept(
        rate in 100u64..100_000,
        weight in 1u64..=100,
        own in 1u64..=100,
        pauses in prop::collection::vec(1u64..SECOND / 8, 100..200),
    ) {
        let mut world = World::new(rate);
        world.add(Share { weight, all: 100 }, &[own], 100);
        let (mut now, mut written) = (5 * SECOND, 0u64);
        let start = now;
        for pause in pauses {
            now += pause;
            written += world.exhaust(0, now);
            let seconds = (now - start) as f64 / SECOND as f64;
            let allowed = (seconds + 1.0) * rate as f64;
            prop_assert!(written as f64 <= allowed * 1.001 + 1.0);
            // The first page is written after up to an eighth of a second, and all but the share
            // of the first second is kept.
            let wanted = allowed - rate as f64 * (5.0 / 8.0) - 1.0;
            prop_assert!(written as f64 >= wanted * 0.999);
        }
    }

    /// A VM that writes less than its share is never refused, although the containers of another
    /// one write as much as they may.
    #[test]
    fn a_share_is_kept_from_greedy_writers(
        rate in 1000u64..100_000,
        weights in prop::collection::vec(0u64..100, 1..4),
        pauses in prop::collection::vec(SECOND / 100..SECOND / 8, 50..100),
    ) {
        let mut world = World::new(rate);
        let modest = world.add(HALF, &[1], 1);
        let greedy = world.add(HALF, &weights, weights.iter().sum());
        let mut now = 5 * SECOND;
        for pause in pauses {
            now += pause;
            for container in 0..weights.len() {
                world.exhaust(greedy + container, now);
            }
            // Nine tenths of what half of the rate allows.
            let pages = rate * pause / SECOND * 45 / 100;
            prop_assert!((0..pages).all(|_| world.write(modest, 1, now)));
        }
    }

    /// A container that writes less than its part of the share of its VM is never refused, although
    /// the other containers of the VM, and those of another VM, write as much as they may.
    #[test]
    fn a_share_is_kept_from_greedy_containers(
        rate in 10_000u64..100_000,
        vm in 20u64..=100,
        own in 10u64..=90,
        others in 1usize..4,
        own_first in any::<bool>(),
        pauses in prop::collection::vec(SECOND / 100..SECOND / 8, 50..100),
    ) {
        let mut world = World::new(rate);
        let modest = world.add(Share { weight: vm, all: 100 }, &[own], 100);
        let (greedy, count) = (modest + 1, others);
        for _ in 0..others {
            let share = Share { weight: (100 - own) / others as u64, all: 100 };
            world.containers.push((0, Spending::new(), share));
        }
        let foreign = world.add(Share { weight: 100 - vm, all: 100 }, &[1], 1);
        let mut now = 5 * SECOND;
        for pause in pauses {
            now += pause;
            let exhaust = || {
                for container in (greedy..greedy + count).chain([foreign]) {
                    world.exhaust(container, now);
                }
            };
            if !own_first {
                exhaust();
            }
            // Nine tenths of what the shares allow.
            let pages = rate * pause / SECOND * vm * own / 10_000 * 9 / 10;
            prop_assert!((0..pages).all(|_| world.write(modest, 1, now)));
            if own_first {
                exhaust();
            }
        }
    }

    /// Two VMs that write as much as they may each get at least their shares, and so do the
    /// containers of one of them.
    #[test]
    fn greedy_writers_divide_by_weight(
        weight in 20u64..=80,
        own in 20u64..=80,
        order in Just([0usize, 1, 2]).prop_shuffle(),
    ) {
        let mut world = World::new(10_000);
        world.add(Share { weight, all: 100 }, &[own, 100 - own], 100);
        world.add(Share { weight: 100 - weight, all: 100 }, &[1], 1);
        let written = world.compete(&order);
        let all = written.iter().sum::<u64>() as f64;
        prop_assert!(all >= 199_000.0, "{all}");
        let part = (written[0] + written[1]) as f64 / all * 100.0;
        prop_assert!((part - weight as f64).abs() <= 5.0, "{part} of {weight}");
        let part = written[0] as f64 / (written[0] + written[1]) as f64 * 100.0;
        prop_assert!((part - own as f64).abs() <= 7.0, "{part} of {own} in the VM");
    }

    /// What the other containers of a VM do not use is lent to the one that writes, and not to
    /// another VM.
    #[test]
    fn a_container_gets_what_its_vm_does_not_use(
        weight in 10u64..=90,
        own in 1u64..=100,
        first in any::<bool>(),
    ) {
        let mut world = World::new(10_000);
        let one = world.add(Share { weight, all: 100 }, &[own], 100);
        let other = world.add(Share { weight: 100 - weight, all: 100 }, &[1], 1);
        let order = if first { [one, other] } else { [other, one] };
        let written = world.compete(&order);
        let all = written.iter().sum::<u64>() as f64;
        let part = written[one] as f64 / all * 100.0;
        prop_assert!((part - weight as f64).abs() <= 5.0, "{part} of {weight}");
    }
}
