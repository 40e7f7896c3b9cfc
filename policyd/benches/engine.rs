// SPDX-License-Identifier: GPL-2.0-only

//! Measures the processor time of the daemon: a round of decisions, a measurement, and churn.
//!
//! Run with `cargo bench --package policyd`. At an interval of five seconds, one percent of a core
//! is 50 milliseconds for a round and its measurement together.

use ddabi::pool::{PoolStats, Store};
use ddnl::Pool;
use divan::{Bencher, black_box};
use policyd::{
    config::Config,
    engine::{Action, Cgroups, Engine, Event, Outcome, Reading, Sample, Time},
    measure::{Meter, Origins},
};
use std::{fs, path::Path};
use tempfile::TempDir;

fn main() {
    divan::main();
}

const COUNTS: [usize; 3] = [20, 200, 1000];

const FILE: &str = "[[container]]\nname = \"c\"\ncgroup = \"/c/*\"\nclass = \"silver\"\n\
                    most_cgroups = 1023\ntarget = { hit_ratio = 0.9, io_pressure = 5 }\n";

/// A VM whose module performs every action.
struct Vm {
    engine: Engine,
    cgroups: Cgroups,
    /// The pools, sorted by their numbers.
    pools: Vec<Pool>,
    now: Time,
    tick: u64,
}

impl Vm {
    fn new(count: usize) -> Self {
        let cgroups = (0..count).map(|at| (format!("/c/{at}"), at as u64 + 1));
        let mut vm = Self {
            engine: Engine::new(Config::parse(FILE).unwrap_or_default()),
            cgroups: cgroups.collect(),
            pools: vec![pool(0, "default", None)],
            now: Time::ZERO,
            tick: 0,
        };
        for _ in 0..10 {
            vm.round();
        }
        vm
    }

    /// Lets one interval pass, and performs all actions that are due.
    fn round(&mut self) {
        self.now += Time::from_secs(5);
        self.tick += 1;
        self.act();
    }

    /// Performs all actions that are due now.
    fn act(&mut self) {
        while let Some(action) = self.engine.poll_action(self.now) {
            let outcome = self.perform(action);
            self.engine.handle(self.now, Event::Outcome(outcome));
        }
    }

    fn perform(&mut self, action: Action) -> Outcome {
        let result = match &action {
            Action::Connect => return Outcome::Connected(Ok(())),
            Action::Scan => return Outcome::Scanned(self.cgroups.clone()),
            Action::List => return Outcome::Listed(Ok(self.list())),
            Action::Measure(cgroups) => return Outcome::Measured(self.look(cgroups)),
            Action::Add(new) => {
                let id = self.pools.last().map_or(0, |last| last.id + 1);
                let mut pool = pool(id, &new.name, Some(&new.cgroup));
                pool.weight = new.weight;
                pool.cgroup_id = self.cgroups.get(&new.cgroup).copied();
                self.pools.push(pool);
                Some(id)
            }
            Action::Set(id, change) => {
                let place = self.pools.binary_search_by_key(id, |pool| pool.id);
                if let Ok(place) = place {
                    let pool = &mut self.pools[place];
                    pool.weight = change.weight.unwrap_or(pool.weight);
                }
                None
            }
            _ => None,
        };
        Outcome::Changed {
            action,
            result: Ok(result),
        }
    }

    fn list(&self) -> Vec<Pool> {
        let mut pools = self.pools.clone();
        for pool in &mut pools {
            // Hit ratios differ between pools and over time.
            let misses = u64::from(pool.id % 7) * self.tick * 100 + self.tick % 3;
            pool.stats = Some(PoolStats {
                entitlement: u64::from(pool.weight) * 30,
                used: u64::from(pool.weight) * 30,
                gets: self.tick * 1000,
                misses,
                ..PoolStats::default()
            });
        }
        pools
    }

    fn look(&self, cgroups: &[String]) -> Sample {
        let reading = Reading {
            current: 1 << 30,
            file: 1 << 29,
            refaults_file: self.tick * 100,
            memory_us: Some(self.tick * 100),
            io_us: Some(self.tick * 1000),
            ..Reading::default()
        };
        let looks = cgroups.iter().map(|one| (one.clone(), reading.clone()));
        Sample {
            containers: looks.collect(),
            ..Sample::default()
        }
    }
}

fn pool(id: u32, name: &str, cgroup: Option<&str>) -> Pool {
    Pool {
        vm: None,
        id,
        name: name.into(),
        cgroup_id: None,
        cgroup: cgroup.map(Into::into),
        weight: 100,
        ssd_weight: 100,
        store: Store::Memory,
        policy: ddnl::Policy::default(),
        ssd_admit: ddabi::pool::SsdAdmit::All,
        stats: None,
        admission: None,
        curve: None,
    }
}

/// Decisions of one interval.
#[divan::bench(args = COUNTS)]
fn round(bencher: Bencher<'_, '_>, count: usize) {
    let mut vm = Vm::new(count);
    bencher.bench_local(|| vm.round());
}

/// One container is created beside `count` others, and removed again.
#[divan::bench(args = COUNTS)]
fn churn(bencher: Bencher<'_, '_>, count: usize) {
    let mut vm = Vm::new(count);
    bencher.bench_local(|| {
        let cgroup = String::from("/c/new");
        vm.cgroups.insert(cgroup.clone(), vm.tick + 10_000);
        let came = Event::CgroupAppeared(cgroup.clone(), vm.tick + 10_000);
        vm.engine.handle(vm.now, came);
        vm.round();
        vm.cgroups.remove(&cgroup);
        vm.pools
            .retain(|pool| pool.cgroup.as_ref() != Some(&cgroup));
        vm.engine.handle(vm.now, Event::CgroupVanished(cgroup));
        vm.round();
    });
}

/// In one minute 300 more containers are created one after the other, each of which is removed a
/// second later. One percent of a core is 600 milliseconds.
#[divan::bench(args = COUNTS, sample_count = 5)]
fn minute(bencher: Bencher<'_, '_>, count: usize) {
    let mut vm = Vm::new(count);
    bencher.bench_local(|| {
        for at in 0..305 {
            vm.now += Time::from_millis(200);
            vm.tick += u64::from(at % 25 == 0);
            if at < 300 {
                let cgroup = format!("/c/new-{at}");
                let number = vm.tick * 1000 + at + 10_000;
                vm.cgroups.insert(cgroup.clone(), number);
                vm.engine
                    .handle(vm.now, Event::CgroupAppeared(cgroup, number));
            }
            if let Some(at) = at.checked_sub(5) {
                let cgroup = format!("/c/new-{at}");
                vm.cgroups.remove(&cgroup);
                vm.pools
                    .retain(|pool| pool.cgroup.as_ref() != Some(&cgroup));
                vm.engine.handle(vm.now, Event::CgroupVanished(cgroup));
            }
            vm.act();
        }
    });
}

/// A measurement of cgroups, whose files are in a temporary directory here.
#[divan::bench(args = COUNTS)]
fn look(bencher: Bencher<'_, '_>, count: usize) {
    let Ok(root) = TempDir::new() else { return };
    let config = Config::parse(FILE).unwrap_or_default();
    let stat: String = (0..70).map(|at| format!("counter_{at} 123456\n")).collect();
    let cgroups: Vec<String> = (0..count).map(|at| format!("/{at}")).collect();
    for cgroup in &cgroups {
        let directory = root.path().join(cgroup.trim_start_matches('/'));
        let files = [
            ("memory.current", "123456789\n"),
            ("memory.stat", stat.as_str()),
            ("memory.pressure", "some avg10=0 avg60=0 avg300=0 total=1\n"),
            ("io.pressure", "some avg10=0 avg60=0 avg300=0 total=1\n"),
        ];
        let made = fs::create_dir(&directory).and_then(|()| {
            files
                .iter()
                .try_for_each(|(name, text)| fs::write(directory.join(name), text))
        });
        if made.is_err() {
            return;
        }
    }
    let mut meter = Meter::new(
        Path::new("/proc"),
        Origins::new(Path::new("/proc"), root.path()),
    );
    bencher.bench_local(|| {
        let container = &config.containers[0];
        let matches = cgroups
            .iter()
            .map(|one| (one.as_str(), one.as_str(), container));
        black_box(meter.measure(root.path(), Time::from_secs(5), matches))
    });
}
