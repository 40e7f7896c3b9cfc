// SPDX-License-Identifier: GPL-2.0-only

//! Containers in both tiers: memory and SSDs together meet targets that neither meets alone
//! (section 5.6.1 of the thesis).

use crate::{workload::GIB, world::World};
use ddabi::{
    counters::{AdmissionCounters, CurvePoint},
    pool::{PoolStats, Store, histogram_bucket},
};
use policyd::engine::{Reading, Time};

/// Seconds of an interval.
const INTERVAL: u64 = 5;

/// Nanoseconds of an operation apart from its read, and of a read from memory, an SSD and the disk.
const BASE: f64 = 40e3;
const FROM_MEMORY: f64 = 12_288.0;
const FROM_SSD: f64 = 98_304.0;
const FROM_DISK: f64 = 4e6;

/// A container that reads one page of its files at random in each operation.
struct Server {
    cgroup: &'static str,
    /// Pages that it reads.
    set: f64,
    /// Operations a second that are asked for.
    demand: f64,
    reading: Reading,
    stats: PoolStats,
    /// Operations a second in the last interval.
    rate: f64,
}

impl Server {
    fn new(cgroup: &'static str, set: f64, demand: f64) -> Self {
        Self {
            cgroup,
            set,
            demand,
            reading: Reading {
                io_us: Some(0),
                memory_us: Some(0),
                ..Reading::default()
            },
            stats: PoolStats::default(),
            rate: 0.0,
        }
    }

    /// Works for an interval with its pages in each tier.
    fn work(&mut self, memory: f64, ssd: f64) {
        let memory = (memory / self.set).min(1.0);
        let ssd = (ssd / self.set).min(1.0 - memory);
        let disk = 1.0 - memory - ssd;
        let time = BASE + memory * FROM_MEMORY + ssd * FROM_SSD + disk * FROM_DISK;
        self.rate = (1e9 / time).min(self.demand);
        let operations = self.rate * INTERVAL as f64;
        let part = |part: f64| (operations * part) as u64;
        let (reading, stats) = (&mut self.reading, &mut self.stats);
        reading.refaults_file += operations as u64;
        reading.application = Some(self.rate);
        let waited = operations * disk * FROM_DISK / 1e3;
        reading.io_us = reading.io_us.map(|us| us + waited as u64);
        stats.gets += part(memory) + part(ssd);
        stats.hits += part(memory) + part(ssd);
        stats.ssd_hits += part(ssd);
        stats.get_latency[histogram_bucket(FROM_MEMORY as u64)] += part(memory);
        stats.ssd_get_latency[histogram_bucket(FROM_SSD as u64)] += part(ssd);
        stats.ssd_used = (ssd * self.set) as u64;
        stats.used = (memory * self.set) as u64 + stats.ssd_used;
    }

    fn curve(&self) -> Vec<CurvePoint> {
        let point = |step: u32| {
            let pages = GIB * f64::from(step) / 16.0;
            let hits = 100_000.0 * (pages / self.set).min(1.0);
            CurvePoint {
                pages: pages as u64,
                hits: hits as u64,
            }
        };
        (1..=32).map(point).collect()
    }
}

/// A VM with shares of both tiers.
struct Vm {
    world: World,
    servers: Vec<Server>,
    memory: f64,
    ssd: f64,
}

impl Vm {
    fn new(file: &str, servers: Vec<Server>, memory: f64, ssd: f64) -> Self {
        let mut world = World::new(file);
        for server in &servers {
            world.make(server.cgroup, true);
        }
        Self {
            world,
            servers,
            memory,
            ssd,
        }
    }

    /// One interval, in which the pages of a container follow its weights immediately.
    fn interval(&mut self) {
        let Self {
            world,
            servers,
            memory,
            ssd,
        } = self;
        world.act();
        world.guest.with(|state| {
            let weight = |pool: &ddnl::Pool| match pool.store {
                Store::Ssd | Store::None => 0,
                _ => pool.weight,
            };
            let ssd_weight = |pool: &ddnl::Pool| match pool.store {
                Store::Ssd | Store::Hybrid => pool.ssd_weight,
                _ => 0,
            };
            let sum: u32 = state.pools.iter().map(weight).sum();
            let ssd_sum: u32 = state.pools.iter().map(ssd_weight).sum();
            for pool in &mut state.pools {
                let memory = *memory * f64::from(weight(pool)) / f64::from(sum.max(1));
                let ssd = *ssd * f64::from(ssd_weight(pool)) / f64::from(ssd_sum.max(1));
                let own = |server: &&mut Server| Some(server.cgroup) == pool.cgroup.as_deref();
                let server = servers.iter_mut().find(own);
                let mut stats = PoolStats::default();
                if let Some(server) = server {
                    server.work(memory, ssd);
                    stats = server.stats;
                    pool.curve = Some(server.curve());
                    pool.admission = Some(AdmissionCounters {
                        reads: 100_000,
                        ..AdmissionCounters::default()
                    });
                }
                stats.entitlement = memory as u64;
                stats.ssd_entitlement = ssd as u64;
                pool.stats = Some(stats);
            }
        });
        for server in &self.servers {
            let containers = &mut self.world.sample.containers;
            containers.insert(server.cgroup.into(), server.reading.clone());
        }
        self.world.pass(Time::from_secs(INTERVAL));
    }

    fn run(&mut self, intervals: usize) {
        for _ in 0..intervals {
            self.interval();
        }
    }

    /// The weights of the servers in the SSD tier, in order.
    fn ssd_weights(&self) -> Vec<u32> {
        self.world.guest.with(|state| {
            let weight = |server: &Server| {
                let own = |pool: &&ddnl::Pool| pool.cgroup.as_deref() == Some(server.cgroup);
                state.pools.iter().find(own).unwrap().ssd_weight
            };
            self.servers.iter().map(weight).collect()
        })
    }
}

/// Operations a second that are the web server's target.
const TARGET: f64 = 9000.0;

/// A web server with a target, and a batch job whose files fit into a small part of memory.
fn file(store: &str, more: &str) -> String {
    format!(
        "interval_s = {INTERVAL}\ndefault_pool_weight = 0\n\
         [[container]]\nname = \"web\"\ncgroup = \"/web\"\nclass = \"gold\"\nstore = \"{store}\"\n{more}\n\
         [container.target]\nthroughput = {TARGET}\nsource = {{ file = \"/figure\" }}\n\
         [[container]]\nname = \"batch\"\ncgroup = \"/batch\"\nclass = \"bronze\"\nstore = \"{store}\"\n"
    )
}

fn servers() -> Vec<Server> {
    vec![
        Server::new("/web", GIB, 20_000.0),
        Server::new("/batch", GIB / 32.0, 100.0),
    ]
}

#[test]
fn both_tiers_meet_a_target_that_neither_meets_alone() {
    let half = GIB * 0.55;
    // The memory alone, and as many pages as both tiers have in the SSD tier alone.
    let mut memory = Vm::new(&file("mem", ""), servers(), half, 0.0);
    memory.run(80);
    assert!(
        memory.servers[0].rate < TARGET * 0.5,
        "{}",
        memory.servers[0].rate
    );
    let mut ssd = Server::new("/web", GIB, 20_000.0);
    ssd.work(0.0, 2.0 * half);
    assert!(ssd.rate < TARGET * 0.85, "{}", ssd.rate);

    let mut both = Vm::new(&file("hybrid", ""), servers(), half, half);
    both.interval();
    // By the file each has half of the SSD tier, which is too little for the target.
    assert_eq!(both.ssd_weights(), [5000, 5000]);
    both.run(10);
    assert!(both.ssd_weights()[0] > 9000, "{:?}", both.ssd_weights());
    both.run(69);
    let rate = both.servers[0].rate;
    assert!(rate >= TARGET, "{rate} {}", both.world.engine.report());
    let report = both.world.engine.report();
    assert_eq!(report.feasible, Some(true), "{report}");
    let told = report.to_string();
    assert!(told.contains("the SSD tier 4"), "{told}");
    assert!(
        told.contains("(in 0.098 ms; the guest's disk takes 4.0 ms)"),
        "{told}"
    );
    // No further changes.
    let before = both.ssd_weights();
    for _ in 0..40 {
        both.interval();
        assert_eq!(both.ssd_weights(), before);
    }
}

/// A measured time of the disk has the same effect as one of the file.
#[test]
fn a_fast_disk_leaves_the_ssd_tier_to_others() {
    let half = GIB * 0.55;
    let mut vm = Vm::new(&file("hybrid", "disk_ms = 0.1"), servers(), half, half);
    vm.run(20);
    assert_eq!(vm.ssd_weights(), [0, 10_000]);
    let told = vm.world.engine.report().containers[1].to_string();
    let reason =
        "no SSD weight: a page takes 0.100 ms from the guest's disk and 0.098 ms from the SSD";
    assert!(told.contains(reason), "{told}");
    // A new daemon changes nothing at first.
    let before = vm.ssd_weights();
    let mut other = World::new(&vm.world.file);
    other.guest = vm.world.guest.clone();
    other.act();
    assert_eq!(vm.ssd_weights(), before);
}
