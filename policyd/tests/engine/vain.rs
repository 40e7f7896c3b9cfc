// SPDX-License-Identifier: GPL-2.0-only

//! Tests of targets that no share of the store can meet, and that must not make others miss theirs.

use crate::{
    model::{Vm, file},
    workload::{GIB, Shape, Workload},
};
use policyd::engine::Verdict;

/// Intervals after which a target that can be met is met, whatever the other containers do.
const SETTLED: usize = 60;

/// A container that completes 500 operations a second with any share, and whose target is 1000.
fn limited_elsewhere() -> Workload {
    Workload::new("/c0", Shape::Flat, 500.0, 1.0, 1000.0)
}

/// A container whose exporter always reports a bad figure, and that reads like another container.
fn says_bad() -> Workload {
    let mut one = Workload::needing("/c0", Shape::Exponential, 0.9);
    one.says = Some(one.target / 3.0);
    one
}

/// Returns a VM with this container, and one that needs this part of the store.
fn beside(one: Workload, part: f64, classes: [&str; 2]) -> Vm {
    let other = Workload::needing("/c1", Shape::Exponential, part);
    let workloads = vec![one, other];
    let text = file(&workloads, &classes);
    Vm::new(&text, workloads, GIB, 7)
}

fn run(vm: &mut Vm, intervals: usize) {
    for _ in 0..intervals {
        vm.interval();
    }
}

/// Returns the number of these intervals in which the other container met its target.
fn met_in(vm: &mut Vm, intervals: usize) -> usize {
    let met = |_: &usize| {
        vm.interval();
        vm.workloads[1].is_met()
    };
    (0..intervals).filter(met).count()
}

fn verdict(vm: &Vm) -> Verdict {
    vm.world.engine.report().containers[0].verdict
}

fn story(vm: &Vm) -> String {
    format!("{:?}\n{}", vm.weights(), vm.world.engine.report())
}

/// Within an hour, a larger share is tried several times for the container, but never for long.
#[test]
fn a_container_that_the_store_cannot_help_costs_others_nothing() {
    for (name, one) in [
        ("bound elsewhere", limited_elsewhere()),
        ("says bad", says_bad()),
    ] {
        for classes in [["silver", "silver"], ["gold", "silver"], ["bronze", "gold"]] {
            for curves in [false, true] {
                let mut vm = beside(one.clone(), 0.6, classes);
                vm.curves = curves;
                run(&mut vm, SETTLED);
                let case = format!("{name}, {classes:?}, curves {curves}");
                assert!(vm.workloads[1].is_met(), "{case}: {}", story(&vm));
                // If it takes nothing from others, no trial is made.
                if classes[1] != "gold" {
                    assert_eq!(verdict(&vm), Verdict::NotHelped, "{case}: {}", story(&vm));
                }
                assert_eq!(vm.world.engine.summary().feasible, Some(false));
                let met = met_in(&mut vm, 720);
                assert!(met >= 720 * 9 / 10, "{case}: {met} {}", story(&vm));
            }
        }
    }
}

/// Fewer requests arrive than the target, and the container continues to fill its store.
#[test]
fn a_container_with_less_demand_takes_nothing_from_others() {
    for tells_io in [false, true] {
        let mut one = Workload::needing("/c0", Shape::Exponential, 0.35);
        one.tells_io = tells_io;
        let mut vm = beside(one, 0.5, ["gold", "silver"]);
        run(&mut vm, SETTLED);
        assert!(vm.all_met(), "{}", story(&vm));
        vm.workloads[0].demand = Some(vm.workloads[0].target / 2.0);
        run(&mut vm, SETTLED);
        assert!(vm.workloads[1].is_met(), "{tells_io}: {}", story(&vm));
        // It is busy again.
        vm.workloads[0].demand = None;
        run(&mut vm, SETTLED);
        assert!(vm.all_met(), "{tells_io}: {}", story(&vm));
    }
}

/// A web server at night: no task waits for anything, so that the target does not count as missed.
#[test]
fn a_throughput_that_is_not_asked_for_counts_as_met() {
    let mut one = Workload::new("/c0", Shape::Exponential, 1000.0, GIB / 20.0, 900.0);
    one.tells_io = true;
    one.demand = Some(100.0);
    let mut vm = beside(one, 0.5, ["gold", "silver"]);
    let mut most = 0;
    for interval in 0..SETTLED {
        vm.interval();
        if interval > 10 {
            assert!(vm.workloads[1].is_met(), "{interval}: {}", story(&vm));
        }
        most = most.max(vm.weights()[1].1);
    }
    assert_eq!(verdict(&vm), Verdict::NotAsked, "{}", story(&vm));
    assert!(most <= 5000, "{most}: {}", story(&vm));
    assert_eq!(vm.world.engine.summary().feasible, Some(true));
}

/// A larger share is tried again some time after it did not help.
#[test]
fn the_store_is_tried_again() {
    for curves in [false, true] {
        let mut vm = beside(limited_elsewhere(), 0.6, ["gold", "silver"]);
        vm.curves = curves;
        run(&mut vm, 2 * SETTLED);
        let other = Workload::needing("/c0", Shape::Exponential, 0.3);
        let one = &mut vm.workloads[0];
        (one.shape, one.top, one.scale) = (other.shape, 1100.0, other.scale);
        let mut took = 0;
        while !vm.all_met() && took < 720 {
            vm.interval();
            took += 1;
        }
        // The curve shows the change; without a curve only a trial does.
        let soon = if curves { 30 } else { 240 };
        assert!(took <= soon, "curves {curves}: {took} {}", story(&vm));
        run(&mut vm, SETTLED);
        assert!(vm.all_met(), "curves {curves}: {}", story(&vm));
    }
}
