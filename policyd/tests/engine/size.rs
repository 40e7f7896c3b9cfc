// SPDX-License-Identifier: GPL-2.0-only

//! Tests of many containers beside one with a target: bursts, floors, and pools with unknown state.

use crate::{
    model::{INTERVAL, Vm, file},
    workload::{GIB, Shape, Workload},
    world::parse,
};
use policyd::engine::{Event, Reading};

/// A container whose target needs this part of a GiB.
fn needs(cgroup: &str, part: f64) -> Workload {
    let mut one = Workload::new(cgroup, Shape::Exponential, 1000.0, 1.0, 700.0);
    one.scale = GIB * part / one.need(one.target);
    one
}

/// A VM with a gold container that has a target, and an entry for any number of bronze jobs.
fn with_jobs(part: f64, weight: u32) -> Vm {
    let gold = needs("/gold", part);
    let text = file(std::slice::from_ref(&gold), &["gold"]);
    let jobs = format!(
        "[[container]]\nname = \"job {{}}\"\ncgroup = \"/jobs/*\"\nclass = \"bronze\"\n\
         weight = {weight}\n"
    );
    Vm::new(&(text + &jobs), vec![gold], GIB, 7)
}

fn add_jobs(vm: &mut Vm, count: usize) {
    for at in 0..count {
        let cgroup = format!("/jobs/j{at}");
        let reading = Reading {
            current: 64 << 20,
            anon: 1 << 20,
            file: 32 << 20,
            memory_us: Some(0),
            ..Reading::default()
        };
        vm.world.sample.containers.insert(cgroup.clone(), reading);
        vm.world.make(&cgroup, true);
        // Each is announced separately.
        vm.world.act();
    }
}

fn gold(vm: &Vm) -> u32 {
    let weights = vm.weights();
    weights.iter().find(|one| one.0 == "c0").unwrap().1
}

#[test]
fn a_burst_of_newcomers_moves_one_step() {
    let mut vm = with_jobs(0.7, 100);
    for _ in 0..20 {
        vm.interval();
    }
    let before = gold(&vm);
    add_jobs(&mut vm, 100);
    assert!(gold(&vm) + 2010 >= before, "{before} -> {}", gold(&vm));
    // The interval is still the same.
    for at in 0..100 {
        vm.world.remove(&format!("/jobs/j{at}"), true, false);
        vm.world.act();
    }
    add_jobs(&mut vm, 100);
    assert!(gold(&vm) + 2010 >= before, "{before} -> {}", gold(&vm));
    for _ in 0..10 {
        vm.interval();
        assert!(gold(&vm) >= 6000, "{}", gold(&vm));
    }
    assert!(vm.all_met());
}

#[test]
fn targets_are_served_among_a_thousand_containers() {
    for count in [250, 600, 1000] {
        let mut vm = with_jobs(0.3, 1);
        add_jobs(&mut vm, count);
        for _ in 0..20 {
            vm.interval();
        }
        assert!(vm.all_met(), "{count}: {}", gold(&vm));
        assert_eq!(vm.world.engine.report().feasible, Some(true));
    }
}

/// A target that would need the whole store leaves many others the floors of the file.
#[test]
fn many_containers_keep_the_floors_of_the_file() {
    for (percent, gold_has) in [(5, 9_400..=9_520), (15, 8_400..=8_520)] {
        let workload = needs("/gold", 2.0);
        let text = format!(
            "floors_percent = {percent}\n{}[[container]]\nname = \"job {{}}\"\n\
             cgroup = \"/jobs/*\"\nclass = \"bronze\"\nweight = 1\n",
            file(std::slice::from_ref(&workload), &["gold"])
        );
        let mut vm = Vm::new(&text, vec![workload], GIB, 7);
        add_jobs(&mut vm, 250);
        for _ in 0..100 {
            vm.interval();
        }
        assert!(gold_has.contains(&gold(&vm)), "{percent}: {}", gold(&vm));
    }
}

#[test]
fn a_pool_without_statistics_delays_no_decision() {
    let workloads = vec![needs("/a", 0.5), needs("/b", 0.1)];
    let refused = "[[container]]\nname = \"refused\"\ncgroup = \"/refused\"\nweight = 1\n";
    let text = file(&workloads, &["gold", "bronze"]) + refused;
    let mut vm = Vm::new(&text, workloads, GIB, 7);
    vm.without_statistics = Some("refused");
    vm.world.make("/refused", true);
    for _ in 0..30 {
        vm.interval();
    }
    assert!(vm.all_met(), "{:?}", vm.weights());
}

#[test]
fn a_default_pool_of_weight_zero_gets_nothing() {
    let workloads = vec![needs("/gold", 0.3)];
    let text = file(&workloads, &["gold"])
        .replace("default_pool_weight = 1", "default_pool_weight = 0")
        .replace(
            "class = \"gold\"",
            "class = \"gold\"\ncache_ceiling = \"40%\"",
        );
    let mut vm = Vm::new(&text, workloads, GIB, 7);
    for _ in 0..30 {
        vm.interval();
        assert_eq!(vm.weights()[0].1, 0);
    }
}

#[test]
fn feasibility_ends_with_the_targets() {
    let workloads = vec![needs("/gold", 2.0)];
    let mut vm = Vm::new(&file(&workloads, &["gold"]), workloads, GIB, 7);
    for _ in 0..20 {
        vm.interval();
    }
    assert_eq!(vm.world.engine.report().feasible, Some(false));
    // Without a host nothing is known about the targets.
    vm.without_statistics = Some("");
    vm.interval();
    vm.interval();
    assert_eq!(vm.world.engine.report().feasible, None);
    vm.without_statistics = None;
    vm.interval();
    vm.interval();
    assert_eq!(vm.world.engine.report().feasible, Some(false));
    let by_hand = "[[container]]\nname = \"c0\"\ncgroup = \"/gold\"\n";
    vm.world.tell(Event::ConfigLoaded(parse(by_hand)));
    vm.world.pass(10 * INTERVAL);
    assert_eq!(vm.world.engine.report().feasible, None);
}
