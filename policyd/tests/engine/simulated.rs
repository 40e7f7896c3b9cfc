// SPDX-License-Identifier: GPL-2.0

//! Closed loops over the simulator: real streams of pages through page caches, `ddcore`'s store and
//! one disk that all share, so that what one container gains changes what the others see.

use crate::{model::oscillation, world::World};
use ddabi::pool::PoolStats;
use ddcore::policy::{Order, Policy};
use ddsim::{
    host::{Mode, PoolId},
    machine::{Container, Machine, Work},
    parameters::{UNIT_PAGES, UNITS_PER_MIB},
    random::Random,
    workload::{Step, Workload, filebench::Webserver},
};
use policyd::engine::{self, Reading, Time};
use std::{cell::Cell, rc::Rc};

/// Seconds between looks.
const INTERVAL_S: u64 = 10;
/// Intervals within which targets must be reached.
const SOON: usize = 10;
/// Intervals over which a throughput is judged: requests come in whole numbers.
const JUDGED: usize = 5;
/// How exactly it is known then: some thousand requests at random.
const EXACT: f64 = 0.99;
/// MiB of the store, of which the three containers want more than twice as much.
const STORE_MIB: u64 = 96;
/// MiB of files that each container serves.
const SETS_MIB: [u64; 3] = [40, 80, 120];
/// A part of the store for each, under which targets are taken: far from equal ones.
const PROOF: [u32; 3] = [5, 25, 70];
/// Part of what was seen under those weights that is promised.
const PROMISED: f64 = 0.85;

/// A web server whose files change for others when it is told so.
struct Server {
    sets: [Webserver; 2],
    changed: Rc<Cell<bool>>,
}

impl Workload for Server {
    fn next(&mut self, thread: usize, random: &mut Random, steps: &mut Vec<Step>) {
        self.sets[usize::from(self.changed.get())].next(thread, random, steps);
    }
}

/// A simulated machine with a container for each size of `SETS_MIB`.
struct Site {
    machine: Machine,
    pools: Vec<PoolId>,
    default: PoolId,
    store_mib: u64,
    second: u64,
    /// What each did until the last look, and what it does a second.
    before: Vec<Work>,
    rates: Vec<f64>,
    /// Switches to other files: more for the second container, fewer for the last.
    changed: Rc<Cell<bool>>,
}

impl Site {
    fn new() -> Self {
        let mut machine = Machine::new(STORE_MIB, Mode::Weighted);
        let vm = machine.host().add_vm(100);
        let changed = Rc::new(Cell::new(false));
        let mut pools = Vec::new();
        for (number, mib) in SETS_MIB.into_iter().enumerate() {
            let seed = number as u64;
            let other = [mib, mib * 2, mib / 2][number];
            let sets = [Webserver::new(mib, seed), Webserver::new(other, seed)];
            let container = machine.add(Container {
                vm,
                limit_mib: 8,
                weight: 100,
                policy: Policy::Fifo,
                processors: 1,
                threads: 2,
                start_s: 0,
                workload: Box::new(Server {
                    sets,
                    changed: changed.clone(),
                }),
            });
            pools.push(machine.pool(container));
        }
        let default = machine.host().add_pool(vm, 1, Order::Aged);
        Self {
            machine,
            default,
            store_mib: STORE_MIB,
            second: 0,
            before: vec![Work::default(); pools.len()],
            rates: vec![0.0; pools.len()],
            pools,
            changed,
        }
    }

    fn weigh(&mut self, weights: &[u32], default: u32) {
        for (pool, weight) in self.pools.iter().zip(weights) {
            self.machine.host().set_weight(*pool, *weight);
        }
        self.machine.host().set_weight(self.default, default);
    }

    /// The host gives so much.
    const fn share(&mut self, mib: u64) {
        self.store_mib = mib;
        self.machine.host().set_capacity(mib * UNITS_PER_MIB);
    }

    fn run(&mut self) {
        self.second += INTERVAL_S;
        self.machine.run(self.second);
        for number in 0..self.pools.len() {
            let work = self.machine.work(number);
            let operations = work.operations - self.before[number].operations;
            self.rates[number] = operations as f64 / INTERVAL_S as f64;
            self.before[number] = work;
        }
    }

    /// What each does a second over the next intervals under fixed weights.
    fn rates_with(&mut self, weights: &[u32; 3], settle: usize) -> Vec<f64> {
        self.weigh(weights, 1);
        for _ in 0..settle {
            self.run();
        }
        let mut sums = vec![0.0; self.pools.len()];
        for _ in 0..JUDGED {
            self.run();
            for (sum, rate) in sums.iter_mut().zip(&self.rates) {
                *sum += rate / JUDGED as f64;
            }
        }
        sums
    }

    /// What the module would tell of a container.
    fn stats(&self, number: usize, weight: u32, sum: u32) -> PoolStats {
        let counts = self.machine.counts(number);
        let entitlement = self.store_mib * UNITS_PER_MIB * u64::from(weight) / u64::from(sum);
        let gets = self.machine.work(number).missed_units;
        PoolStats {
            weight: weight.into(),
            entitlement: entitlement * UNIT_PAGES,
            used: counts.used * UNIT_PAGES,
            gets: gets * UNIT_PAGES,
            hits: counts.hits * UNIT_PAGES,
            misses: (gets - counts.hits) * UNIT_PAGES,
            ..PoolStats::default()
        }
    }
}

/// policyd's engine over a site.
struct Loop {
    site: Site,
    world: World,
    targets: Vec<f64>,
}

impl Loop {
    /// Promises these throughputs; the containers begin with these weights.
    fn new(site: Site, targets: &[f64], weights: [u32; 3]) -> Self {
        let mut file = format!("interval_s = {INTERVAL_S}\ndefault_pool_weight = 1\n");
        for (number, (target, weight)) in targets.iter().zip(weights).enumerate() {
            file.push_str(&format!(
                "[[container]]\nname = \"c{number}\"\ncgroup = \"/c{number}\"\nweight = {weight}\n\
                 [container.target]\nthroughput = {target}\nsource = {{ file = \"/figure\" }}\n"
            ));
        }
        let mut world = World::new(&file);
        world.sample.machine = engine::Machine {
            total: 8 << 30,
            available: 4 << 30,
            ..engine::Machine::default()
        };
        for number in 0..targets.len() {
            world.make(&format!("/c{number}"), true);
        }
        world.act();
        let targets = targets.to_vec();
        Self {
            site,
            world,
            targets,
        }
    }

    fn interval(&mut self) {
        let weights = self.weights();
        self.site.weigh(&weights[1..], weights[0]);
        self.site.run();
        let (site, sum) = (&self.site, weights.iter().sum());
        self.world.guest.with(|state| {
            for pool in &mut state.pools {
                pool.stats = Some(match number(pool.cgroup.as_deref()) {
                    Some(number) => site.stats(number, pool.weight, sum),
                    None => PoolStats {
                        weight: pool.weight.into(),
                        ..PoolStats::default()
                    },
                });
            }
        });
        for number in 0..self.targets.len() {
            let reading = Reading {
                current: 64 << 20,
                anon: 8 << 20,
                file: 56 << 20,
                refaults_file: site.machine.work(number).missed_units * UNIT_PAGES / 2,
                application: Some(site.rates[number]),
                ..Reading::default()
            };
            let sample = &mut self.world.sample.containers;
            sample.insert(format!("/c{number}"), reading);
        }
        self.world.pass(Time::from_secs(INTERVAL_S));
    }

    /// The default pool's weight, then those of the containers.
    fn weights(&self) -> Vec<u32> {
        let mut weights = vec![1; self.targets.len() + 1];
        self.world.guest.with(|state| {
            for pool in &state.pools {
                let at = number(pool.cgroup.as_deref()).map_or(0, |number| number + 1);
                weights[at] = pool.weight;
            }
        });
        weights
    }

    /// Intervals until all targets are met on average over the intervals that follow.
    fn settle(&mut self) -> usize {
        let mut last: Vec<Vec<f64>> = Vec::new();
        for interval in 1..=4 * SOON {
            self.interval();
            last.push(self.site.rates.clone());
            let judged = &last[last.len().saturating_sub(JUDGED)..];
            let met = |(at, target): (usize, &f64)| {
                let sum: f64 = judged.iter().map(|rates| rates[at]).sum();
                sum / JUDGED as f64 >= *target * EXACT
            };
            if judged.len() == JUDGED && self.targets.iter().enumerate().all(met) {
                // Met since the first of those that were judged.
                return interval + 1 - JUDGED;
            }
        }
        panic!("not met: {}", self.story());
    }

    /// The weights over some intervals.
    fn weights_over(&mut self, intervals: usize) -> Vec<Vec<u32>> {
        let interval = |_| {
            self.interval();
            self.weights()
        };
        (0..intervals).map(interval).collect()
    }

    fn story(&self) -> String {
        let report = self.world.engine.report();
        format!("{:?} for {:?}\n{report}", self.site.rates, self.targets)
    }
}

fn number(cgroup: Option<&str>) -> Option<usize> {
    cgroup?.strip_prefix("/c")?.parse().ok()
}

/// What a fixed split reaches, less a little: targets that can be met together.
fn targets() -> Vec<f64> {
    let mut targets = Site::new().rates_with(&PROOF, 12);
    for target in &mut targets {
        *target *= PROMISED;
    }
    targets
}

#[test]
fn what_equal_weights_miss_is_met_from_any_start() {
    let targets = targets();
    let equal = Site::new().rates_with(&[33; 3], 12);
    let misses = |(rate, target): (&f64, &f64)| rate < target;
    assert!(
        equal.iter().zip(&targets).any(misses),
        "{equal:?} {targets:?}"
    );
    for start in [[33, 33, 33], [80, 10, 10], [10, 80, 10], [1, 1, 98]] {
        let mut run = Loop::new(Site::new(), &targets, start);
        // Nothing is in the store yet: that is nobody's fault.
        run.site.rates_with(&start, 6);
        let took = run.settle();
        assert!(took <= SOON, "{start:?}: {took} {}", run.story());
        run.weights_over(10);
        let most = oscillation(&run.weights_over(30));
        assert!(most <= 0.05, "{start:?}: {most} {}", run.story());
    }
}

/// One container's files become twice as many and another's half; then the host gives less.
#[test]
fn what_changes_is_followed() {
    let mut run = Loop::new(Site::new(), &targets(), [33; 3]);
    run.settle();
    run.site.changed.set(true);
    let took = run.settle();
    assert!(took <= SOON, "other files: {took} {}", run.story());
    run.site.share(STORE_MIB * 15 / 16);
    let took = run.settle();
    assert!(took <= SOON, "a smaller share: {took} {}", run.story());
}
