// SPDX-License-Identifier: GPL-2.0-only

//! A model of containers with workloads in a VM with a share of the store: the effect of weights on
//! figures.

use crate::{
    workload::{READS, Workload},
    world::World,
};
use ddabi::{counters::AdmissionCounters, pool::PoolStats};
use policyd::engine::{Machine, Reading, Time};

/// A VM at work.
pub(crate) struct Vm {
    pub(crate) world: World,
    pub(crate) workloads: Vec<Workload>,
    /// The VM's share of the store in pages.
    pub(crate) pages: f64,
    /// Figures differ from the truth by up to this part.
    pub(crate) noise: f64,
    /// Standard deviation of the logarithm of a further, normally distributed factor.
    pub(crate) lognormal: f64,
    /// Whether the module reports curves.
    pub(crate) curves: bool,
    /// The pool without statistics; the empty name means all pools, as without a host.
    pub(crate) without_statistics: Option<&'static str>,
    /// Intervals that passed.
    pub(crate) intervals: usize,
    random: u64,
}

/// The interval of all files of the model.
pub(crate) const INTERVAL: Time = Time::from_secs(5);

impl Vm {
    /// Creates a VM with these workloads, whose pools have these weights at first.
    pub(crate) fn new(file: &str, workloads: Vec<Workload>, pages: f64, seed: u64) -> Self {
        let mut world = World::new(file);
        for workload in &workloads {
            world.make(&workload.cgroup, true);
        }
        world.sample.machine = Machine {
            total: 8 << 30,
            available: 4 << 30,
            ..Machine::default()
        };
        Self {
            world,
            workloads,
            pages,
            noise: 0.02,
            lognormal: 0.0,
            intervals: 0,
            curves: false,
            without_statistics: None,
            random: seed | 1,
        }
    }

    /// Moves the contents of the stores close to the shares by weight.
    pub(crate) fn settle(&mut self) {
        for _ in 0..8 {
            self.fill();
        }
    }

    /// Runs one interval: stores follow the weights, figures follow the stores, and the engine
    /// acts.
    pub(crate) fn interval(&mut self) {
        self.fill();
        for at in 0..self.workloads.len() {
            let noise = self.next_noise();
            let one = &mut self.workloads[at];
            let truth = one.throughput_in(one.used, self.intervals);
            one.told.push(one.says.unwrap_or(truth) * noise);
            let before = one.told.len().saturating_sub(1 + one.delay);
            let reading = Reading {
                current: 1 << 30,
                anon: 100 << 20,
                file: 900 << 20,
                refaults_file: one.stats.gets / 2,
                memory_us: Some(0),
                io_us: one.tells_io.then_some(one.io_us as u64),
                application: Some(one.told[before]),
                ..Reading::default()
            };
            let sample = &mut self.world.sample.containers;
            sample.insert(one.cgroup.clone(), reading);
        }
        self.intervals += 1;
        self.world.pass(INTERVAL);
    }

    /// Moves the contents of the stores towards the shares by weight.
    fn fill(&mut self) {
        let pages = self.pages;
        let curves = self.curves;
        let without = self.without_statistics;
        let workloads = &mut self.workloads;
        self.world.guest.with(|state| {
            let sum: u32 = state.pools.iter().map(|pool| pool.weight).sum();
            for pool in &mut state.pools {
                let entitled = pages * f64::from(pool.weight) / f64::from(sum.max(1));
                let found = workloads
                    .iter_mut()
                    .find(|one| Some(one.cgroup.as_str()) == pool.cgroup.as_deref());
                let mut stats = PoolStats::default();
                if let Some(one) = found {
                    // In one interval, seven tenths of the distance to the share are covered.
                    one.used += (entitled - one.used) * 0.7;
                    one.stats.used = one.used as u64;
                    // There are a thousand gets a second if only the store limits them; the curve
                    // gives the misses.
                    let possible = one.top * one.shape.part(one.used / one.scale);
                    let asked = one
                        .demand
                        .map_or(1.0, |demand| (demand / possible).min(1.0));
                    let (gets, misses) = (5000.0 * asked, one.misses(one.used));
                    one.stats.gets += gets as u64;
                    one.stats.misses += (gets * misses) as u64;
                    one.io_us += INTERVAL.as_micros() as f64 * asked * misses;
                    stats = one.stats;
                    if curves {
                        pool.curve = Some(one.curve());
                        pool.admission = Some(AdmissionCounters {
                            reads: READS,
                            ..AdmissionCounters::default()
                        });
                    }
                }
                stats.entitlement = entitled as u64;
                stats.weight = pool.weight.into();
                let refused = without.is_some_and(|name| name.is_empty() || name == pool.name);
                pool.stats = (!refused).then_some(stats);
            }
        });
    }

    pub(crate) fn weights(&self) -> Vec<(String, u32)> {
        self.world.guest.with(|state| {
            let weight = |pool: &ddnl::Pool| (pool.name.clone(), pool.weight);
            state.pools.iter().map(weight).collect()
        })
    }

    pub(crate) fn all_met(&self) -> bool {
        self.workloads.iter().all(Workload::is_met)
    }

    /// Returns a factor by which a figure differs from the truth.
    fn next_noise(&mut self) -> f64 {
        let uniform = 1.0 + self.noise * (self.next_random() * 2.0 - 1.0);
        if self.lognormal <= 0.0 {
            return uniform;
        }
        // The sum of twelve uniform variables is nearly normal.
        let normal = (0..12).map(|_| self.next_random()).sum::<f64>() - 6.0;
        uniform * (self.lognormal * normal).exp()
    }

    fn next_random(&mut self) -> f64 {
        // xorshift is random enough for noise, and is reproducible.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Returns a file with these containers, given the class and the target of each.
pub(crate) fn file(workloads: &[Workload], classes: &[&str]) -> String {
    let mut file = String::from("interval_s = 5\ndefault_pool_weight = 1\n");
    for (at, one) in workloads.iter().enumerate() {
        let class = classes.get(at).copied().unwrap_or("silver");
        file.push_str(&format!(
            "[[container]]\nname = \"c{at}\"\ncgroup = \"{}\"\nclass = \"{class}\"\n\
             [container.target]\nthroughput = {}\nsource = {{ file = \"/figure\" }}\n",
            one.cgroup, one.target
        ));
    }
    file
}

/// Returns the largest distance that a weight moved back and forth, as a part of the weight. A step
/// or two of rounding do not count.
pub(crate) fn oscillation(history: &[Vec<u32>]) -> f64 {
    let (Some(first), Some(last)) = (history.first(), history.last()) else {
        return 0.0;
    };
    let part = |at: usize| {
        let steps = history.windows(2);
        let way: u32 = steps.map(|pair| pair[0][at].abs_diff(pair[1][at])).sum();
        // The distance beyond that from the first to the last weight is back and forth.
        let fro = (way - first[at].abs_diff(last[at])) / 2;
        match fro {
            0..=2 => 0.0,
            fro => f64::from(fro) / f64::from(last[at]),
        }
    };
    (0..first.len()).map(part).fold(0.0, f64::max)
}
