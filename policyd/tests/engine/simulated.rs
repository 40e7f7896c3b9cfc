// SPDX-License-Identifier: GPL-2.0-only

//! Closed loops over the simulator: real streams of pages through page caches, `ddcore`'s store and
//! one disk that all share, so that what one container gains changes what the others see.

use crate::{
    model::oscillation,
    site::{INTERVAL_S, JUDGED, STORE_MIB, Site},
    world::World,
};
use ddabi::pool::PoolStats;
use ddsim::parameters::UNIT_PAGES;
use policyd::engine::{self, Reading, Time};

/// Intervals within which targets must be reached.
const SOON: usize = 10;
/// Accuracy of a throughput, which is that of some thousand random requests.
const EXACT: f64 = 0.99;
/// Weights, far from equal ones, under which the throughputs are measured that become targets.
const PROOF: [u32; 3] = [5, 25, 70];
/// Part of the throughput under those weights that becomes the target.
const PROMISED: f64 = 0.85;

/// policyd's engine over a site.
struct Loop {
    site: Site,
    world: World,
    targets: Vec<f64>,
}

impl Loop {
    /// Creates a loop with these throughputs as targets. The containers begin with these weights.
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
                let number = number(pool.cgroup.as_deref());
                let (admission, curve) = number
                    .and_then(|number| site.machine.sampled(number))
                    .unzip();
                (pool.admission, pool.curve) = (admission, curve);
                pool.stats = Some(match number {
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

    /// Returns the weight of the default pool, and then those of the containers.
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

    /// Returns the number of intervals until all targets are met on average over the following
    /// intervals.
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
                // The targets have been met since the first interval that was judged.
                return interval + 1 - JUDGED;
            }
        }
        panic!("not met: {}", self.story());
    }

    /// Returns the weights over some intervals.
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

/// Returns slightly less than a fixed split reaches, so that the targets can be met together.
fn targets() -> Vec<f64> {
    let mut targets = Site::new().rates_with(&PROOF, 12);
    for target in &mut targets {
        *target *= PROMISED;
    }
    targets
}

#[test]
fn targets_that_equal_weights_miss_are_met_from_any_start() {
    let targets = targets();
    let equal = Site::new().rates_with(&[33; 3], 12);
    let misses = |(rate, target): (&f64, &f64)| rate < target;
    assert!(
        equal.iter().zip(&targets).any(misses),
        "{equal:?} {targets:?}"
    );
    for start in [[33, 33, 33], [80, 10, 10], [10, 80, 10], [1, 1, 98]] {
        let mut run = Loop::new(Site::new(), &targets, start);
        // The time in which the empty store is filled must not count.
        run.site.rates_with(&start, 6);
        let took = run.settle();
        assert!(took <= SOON, "{start:?}: {took} {}", run.story());
        run.weights_over(10);
        let most = oscillation(&run.weights_over(30));
        assert!(most <= 0.05, "{start:?}: {most} {}", run.story());
    }
}

/// The files of one container double and those of another are halved. Then the VM's share shrinks.
#[test]
fn changes_are_followed() {
    let mut run = Loop::new(Site::new(), &targets(), [33; 3]);
    run.settle();
    run.site.changed.set(true);
    let took = run.settle();
    assert!(took <= SOON, "other files: {took} {}", run.story());
    run.site.share(STORE_MIB * 15 / 16);
    let took = run.settle();
    assert!(took <= SOON, "a smaller share: {took} {}", run.story());
}
