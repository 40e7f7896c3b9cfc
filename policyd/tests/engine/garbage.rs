// SPDX-License-Identifier: GPL-2.0-only

//! Implausible figures, while containers, module and host come and go.

use crate::world::{World, parse};
use ddabi::pool::PoolStats;
use ddnl::fake::Fault;
use policyd::engine::{Curve, Event, Job, Limits, Machine, Reading, Time};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Make(usize),
    Remove(usize),
    /// Pages entitled to and held, and counters, of every pool.
    Stats(u64, u64, u64),
    /// A measurement of a container.
    Measure(usize, Reading),
    /// A measurement of the machine.
    Machine(Machine),
    Pass(u64),
    Unload,
    Reload(usize),
}

fn reading() -> impl Strategy<Value = Reading> {
    let number = prop_oneof![Just(0), 0..1_000_000u64, any::<u64>()];
    let figure = prop_oneof![
        Just(None),
        (0.0..1e4f64).prop_map(Some),
        any::<f64>().prop_map(Some)
    ];
    let curve = prop::collection::vec((any::<u64>(), any::<f64>()), 0..5);
    let numbers = prop::collection::vec(number, 6);
    (numbers, any::<Option<u64>>(), figure, curve).prop_map(|(numbers, us, figure, curve)| {
        Reading {
            current: numbers[0],
            anon: numbers[1],
            file: numbers[2],
            locked: numbers[5],
            refaults_file: numbers[3],
            refaults_anon: numbers[4],
            memory_us: us,
            full_us: us,
            io_us: us,
            application: figure,
            curve: Curve::new(curve),
            ..Reading::default()
        }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let machine = (any::<u64>(), any::<u64>(), any::<Option<u64>>());
    let machine = machine.prop_map(|(total, available, memory_us)| Machine {
        total,
        available,
        swap_free: available,
        memory_us,
        reclaims: memory_us,
    });
    let number = || prop_oneof![0..300_000u64, any::<u64>()];
    let step = prop_oneof![
        4 => (0..6usize).prop_map(Step::Make),
        1 => (0..6usize).prop_map(Step::Remove),
        4 => (0..1_000_000u64, number(), number())
            .prop_map(|(entitled, used, count)| Step::Stats(entitled, used, count)),
        6 => (0..6usize, reading()).prop_map(|(at, reading)| Step::Measure(at, reading)),
        2 => machine.prop_map(Step::Machine),
        6 => (0..20_000u64).prop_map(Step::Pass),
        1 => Just(Step::Unload),
        1 => (0..WILD.len()).prop_map(Step::Reload),
    ];
    prop::collection::vec(step, 1..50)
}

const WILD: [&str; 3] = [
    "[reclaim]\n[offload]\n[[container]]\nname = \"c\"\ncgroup = \"/c/*\"\nclass = \"gold\"\n\
     manage_memory = true\nmemory_ceiling = \"1G\"\n\
     target = { throughput = 100, io_pressure = 5, source = { file = \"/x\" } }\n",
    "[[container]]\nname = \"a\"\ncgroup = \"/c/1\"\nweight = 0\n\
     [[container]]\nname = \"b\"\ncgroup = \"/c/2\"\nstore = \"none\"\nclass = \"gold\"\n\
     [[container]]\nname = \"c\"\ncgroup = \"/c/*\"\ncache_floor = \"30%\"\n\
     cache_ceiling = \"40%\"\ntarget = { hit_ratio = 0.9 }\n",
    "interval_s = 1\ndefault_pool_weight = 0\n[[container]]\nname = \"c\"\ncgroup = \"/c/*\"\n\
     target = { latency_ms = 0.01, refault_rate = 3 }\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// For all measurements, weights keep their sum and bounds, and no limit is below anonymous
    /// memory.
    #[test]
    fn implausible_measurements_keep_the_weights_valid(first in 0..WILD.len(), steps in steps()) {
        let mut world = World::new(WILD[first]);
        for step in &steps {
            take(&mut world, step);
            for job in std::mem::take(&mut world.jobs) {
                if let Job::Limit { cgroup, limits: Limits { high: Some(high), .. }, .. } = &job {
                    let anon = world.sample.containers[cgroup].anon;
                    prop_assert!(*high >= anon, "{job:?}");
                }
                world.end(job);
            }
        }
        world.fault(Fault::None);
        world.pass(Time::from_secs(120));
        let pools = world.guest.with(|state| state.pools.clone());
        let none: Vec<&ddnl::Pool> = pools.iter().filter(|pool| pool.name == "a").collect();
        prop_assert!(none.iter().all(|pool| pool.weight == 0), "{pools:?}");
        let sum: u32 = pools.iter().map(|pool| pool.weight).sum();
        prop_assert_eq!(sum, 10_000, "{:?}", pools);
        prop_assert!(serde_json::to_string(&world.engine.report()).is_ok());
    }
}

fn take(world: &mut World, step: &Step) {
    let cgroup = |at: usize| format!("/c/{at}");
    match step {
        Step::Make(at) => world.make(&cgroup(*at), at % 2 == 0),
        Step::Remove(at) => world.remove(&cgroup(*at), at % 2 == 0, false),
        Step::Stats(entitled, used, count) => world.guest.with(|state| {
            for pool in &mut state.pools {
                pool.stats = Some(PoolStats {
                    entitlement: *entitled,
                    used: *used,
                    gets: *count,
                    misses: count / 3,
                    get_latency: [count / 1000; 32],
                    ..PoolStats::default()
                });
            }
        }),
        Step::Measure(at, reading) => {
            let containers = &mut world.sample.containers;
            containers.insert(cgroup(*at), reading.clone());
        }
        Step::Machine(machine) => world.sample.machine = *machine,
        Step::Pass(milliseconds) => world.pass(Time::from_millis(*milliseconds)),
        Step::Unload => {
            world.guest.with(ddnl::fake::GuestState::reload);
            world.tell(Event::ModuleWent);
        }
        Step::Reload(file) => world.tell(Event::ConfigLoaded(parse(WILD[*file]))),
    }
}
