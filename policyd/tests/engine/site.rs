// SPDX-License-Identifier: GPL-2.0-only

//! A simulated machine: web servers in containers, their page caches, the host's store, and a disk
//! that all share.

use ddabi::policy::Policy;
use ddabi::pool::PoolStats;
use ddcore::policy::Order;
use ddsim::{
    host::{Mode, PoolId},
    machine::{Container, Machine, Work},
    parameters::{UNIT_PAGES, UNITS_PER_MIB},
    random::Random,
    workload::{Step, Workload, filebench::Webserver},
};
use std::{cell::Cell, rc::Rc};

/// Seconds between measurements.
pub(crate) const INTERVAL_S: u64 = 10;
/// Intervals over which a throughput is averaged, because requests come in whole numbers.
pub(crate) const JUDGED: usize = 5;
/// MiB of the store, of which the three containers want more than twice as much.
pub(crate) const STORE_MIB: u64 = 96;
/// MiB of files that each container serves.
const SETS_MIB: [u64; 3] = [40, 80, 120];

/// A web server whose set of files can be replaced.
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
pub(crate) struct Site {
    pub(crate) machine: Machine,
    pools: Vec<PoolId>,
    default: PoolId,
    store_mib: u64,
    second: u64,
    /// The work of each server until the last measurement.
    before: Vec<Work>,
    /// Requests a second of each since then.
    pub(crate) rates: Vec<f64>,
    /// Switches to other files: more for the second container, fewer for the last.
    pub(crate) changed: Rc<Cell<bool>>,
}

impl Site {
    pub(crate) fn new() -> Self {
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
        machine.sample_curves();
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

    pub(crate) fn weigh(&mut self, weights: &[u32], default: u32) {
        for (pool, weight) in self.pools.iter().zip(weights) {
            self.machine.host().set_weight(*pool, *weight);
        }
        self.machine.host().set_weight(self.default, default);
    }

    /// Sets the VM's share of the store.
    pub(crate) fn share(&mut self, mib: u64) {
        self.store_mib = mib;
        self.machine.host().set_capacity(mib * UNITS_PER_MIB);
    }

    pub(crate) fn run(&mut self) {
        self.second += INTERVAL_S;
        self.machine.run(self.second);
        for number in 0..self.pools.len() {
            let work = self.machine.work(number);
            let operations = work.operations - self.before[number].operations;
            self.rates[number] = operations as f64 / INTERVAL_S as f64;
            self.before[number] = work;
        }
    }

    /// Returns the work of each server a second over the next intervals under fixed weights.
    pub(crate) fn rates_with(&mut self, weights: &[u32; 3], settle: usize) -> Vec<f64> {
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

    /// Returns the statistics that the module would report of a container.
    pub(crate) fn stats(&self, number: usize, weight: u32, sum: u32) -> PoolStats {
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
