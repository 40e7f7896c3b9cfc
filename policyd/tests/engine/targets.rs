// SPDX-License-Identifier: GPL-2.0-only

//! Figures of targets, the end of targets, and the start of a daemon.

use crate::{
    model::{self, Vm},
    workload::{GIB, Shape, Workload},
    world::World,
};
use ddabi::pool::{PoolStats, Store};
use ddnl::{GuestControl, NewPool};
use policyd::engine::{Reading, Time, Verdict};

/// Returns the reported figure of the only container's target after some intervals of five seconds.
/// In each of them, `step` raises the counters of a reading and of its pool.
fn measured(target: &str, step: impl Fn(&mut Reading, &mut PoolStats)) -> Option<f64> {
    let file = format!(
        "interval_s = 5\n[[container]]\nname = \"a\"\ncgroup = \"/a\"\nclass = \"gold\"\n\
         [container.target]\n{target}\n"
    );
    let mut world = World::new(&file);
    world.make("/a", true);
    let (mut reading, mut stats) = (Reading::default(), PoolStats::default());
    (reading.memory_us, reading.io_us) = (Some(0), Some(0));
    for _ in 0..3 {
        step(&mut reading, &mut stats);
        let containers = &mut world.sample.containers;
        containers.insert("/a".into(), reading.clone());
        world.guest.with(|state| {
            for pool in &mut state.pools {
                pool.stats = Some(stats);
            }
        });
        world.pass(Time::from_secs(5));
    }
    world.engine.report().containers[0].goals[0].measured
}

#[test]
fn each_target_measures_what_it_names() {
    let busy = |reading: &mut Reading, stats: &mut PoolStats| {
        reading.refaults_file += 500;
        reading.refaults_anon += 50;
        reading.memory_us = reading.memory_us.map(|us| us + 100_000);
        reading.io_us = reading.io_us.map(|us| us + 250_000);
        reading.application = Some(77.0);
        stats.gets += 400;
        stats.misses += 100;
        stats.get_latency[20] += 400;
    };
    assert_eq!(measured("refault_rate = 1", busy), Some(110.0));
    assert_eq!(measured("memory_pressure = 1", busy), Some(2.0));
    assert_eq!(measured("io_pressure = 1", busy), Some(5.0));
    assert_eq!(measured("hit_ratio = 0.9", busy), Some(0.6));
    let source = "source = { file = \"/figure\" }";
    let throughput = format!("throughput = 100\n{source}");
    assert_eq!(measured(&throughput, busy), Some(77.0));
    let latency = format!("latency_ms = 1\n{source}");
    assert_eq!(measured(&latency, busy), Some(77.0));
    // Without a source, the time that gets took at the host is the figure.
    let gets = measured("latency_ms = 1", busy).unwrap();
    assert!((1.0..2.1).contains(&gets), "{gets}");
    assert_eq!(measured("latency_ms = 1", |_, _| ()), None);
}

/// A share at its ceiling is not reported as growing.
#[test]
fn a_ceiling_is_reported() {
    // Each of both containers needs more than there is.
    let far = |cgroup| Workload::new(cgroup, Shape::Exponential, 1000.0, GIB, 900.0);
    let workloads = vec![far("/gold"), far("/bronze")];
    let file = model::file(&workloads, &["gold", "bronze"]).replace(
        "class = \"gold\"",
        "class = \"gold\"\ncache_ceiling = \"40%\"",
    );
    let mut vm = Vm::new(&file, workloads, GIB, 7);
    for _ in 0..20 {
        vm.interval();
    }
    let report = vm.world.engine.report();
    let of = |name: &str| {
        report
            .containers
            .iter()
            .find(|one| one.name == name)
            .unwrap()
    };
    assert_eq!(of("c0").verdict, Verdict::Ceiling, "{:?}", vm.weights());
    assert_ne!(of("c1").verdict, Verdict::Ceiling);
    let reason = &of("c0").reason;
    assert!(reason.contains("`cache_ceiling`"), "{reason}");
}

/// Weights that an administrator has set are not adopted as the shares of a previous daemon.
#[test]
fn weights_by_hand_are_not_adopted() {
    let file = "[[container]]\nname = \"a\"\ncgroup = \"/a\"\nclass = \"gold\"\n\
                [[container]]\nname = \"b\"\ncgroup = \"/b\"\nclass = \"bronze\"\n";
    let begin = |by_hand: &[(&str, u32)]| {
        let mut world = World::new(file);
        for cgroup in ["/a", "/b"] {
            world.make(cgroup, true);
        }
        for (name, weight) in by_hand {
            let pool = NewPool {
                cgroup: format!("/{name}"),
                name: (*name).into(),
                weight: *weight,
                ssd_weight: None,
                store: Store::Memory,
                policy: None,
                ssd_admit: None,
            };
            world.guest.add_pool(&pool).unwrap();
        }
        world.act();
        world.enrolled()
    };
    let fair = begin(&[]);
    assert_eq!(begin(&[("a", 40), ("b", 60)]), fair);
    assert_eq!(begin(&[("a", 6000), ("b", 9000)]), fair);
}
