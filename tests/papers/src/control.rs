// SPDX-License-Identifier: GPL-2.0-only

//! policyd's engine as the controller of a simulated machine.
//!
//! The engine is the daemon's own, and its guest module is `ddnl`'s fake, which takes the same
//! calls. Figures and statistics come from the machine, and weights and limits are applied to it.
//! The daemon reads a file that an administrator could have written, with its defaults.

use ddabi::PAGE_SIZE;
use ddabi::pool::PoolStats;
use ddnl::GuestControl as _;
use ddnl::fake::FakeGuest;
use ddsim::host::PoolId;
use ddsim::machine::{Machine, Work};
use ddsim::parameters::{UNIT, UNIT_PAGES, UNITS_PER_MIB};
use policyd::config::{Config, Figure};
use policyd::engine::{
    self, Action, Cgroups, Engine, Event, Failure, Job, Limits, Outcome, Reading, Sample, Time,
};

/// A container and its target.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name, which is also that of its cgroup.
    pub name: &'static str,
    /// The target: minimum operations a second, or maximum milliseconds.
    pub promise: (Figure, f64),
    /// When it starts, in seconds.
    pub start_s: u64,
    /// Memory of its processes that the machine does not simulate, in MiB.
    pub processes_mib: u64,
}

/// The daemon in the machine's only VM.
#[derive(Debug)]
pub struct Control {
    engine: Engine,
    guest: FakeGuest,
    subjects: Vec<Subject>,
    /// Memory of the VM, if the daemon manages it as well.
    memory_mib: Option<u64>,
    store_mib: u64,
    default: PoolId,
    cgroups: Cgroups,
    jobs: Vec<Job>,
    before: Vec<Work>,
    now: Time,
}

/// Seconds between two looks, by the daemon's default.
pub const INTERVAL_S: u64 = 5;

impl Control {
    /// Creates a daemon for all containers of a machine, in their order. `default` is the pool of
    /// pages outside of them.
    ///
    /// # Panics
    ///
    /// Panics if the daemon refuses the file that is made from the subjects.
    pub fn new(
        subjects: Vec<Subject>,
        store_mib: u64,
        memory_mib: Option<u64>,
        default: PoolId,
    ) -> Self {
        let file = file(&subjects, memory_mib.is_some());
        let config = Config::parse(&file);
        let config = config.unwrap_or_else(|problems| panic!("{problems:?} in\n{file}"));
        assert_eq!(config.interval, Time::from_secs(INTERVAL_S));
        let guest = FakeGuest::default();
        guest.with(|state| state.cgroups = Some(Cgroups::new()));
        Self {
            engine: Engine::new(config),
            guest,
            before: vec![Work::default(); subjects.len()],
            subjects,
            memory_mib,
            store_mib,
            default,
            cgroups: Cgroups::new(),
            jobs: Vec::new(),
            now: Time::ZERO,
        }
    }

    /// Returns the number of managed containers.
    pub fn containers(&self) -> usize {
        self.subjects.len()
    }

    /// Returns the daemon's report.
    pub fn report(&self) -> engine::Report {
        self.engine.report()
    }

    /// Lets the daemon measure at this second, and applies its decisions.
    pub fn look(&mut self, machine: &mut Machine, second: u64) {
        self.now = Time::from_secs(second);
        self.appear(second);
        let sample = self.measure(machine);
        self.tell_statistics(machine);
        while let Some(action) = self.engine.poll_action(self.now) {
            let outcome = self.perform(action, &sample);
            self.engine.handle(self.now, Event::Outcome(outcome));
        }
        for job in std::mem::take(&mut self.jobs) {
            let result = self.work(machine, second, &job);
            self.engine
                .handle(self.now, Event::Ended(job, result.map(|()| 0)));
        }
        for (number, weight) in self.weights() {
            let pool = number.map_or(self.default, |number| machine.pool(number));
            machine.host().set_weight(pool, weight);
        }
    }

    fn appear(&mut self, second: u64) {
        for (number, subject) in self.subjects.iter().enumerate() {
            let (cgroup, id) = (path(subject), number as u64 + 1);
            if subject.start_s < second && self.cgroups.insert(cgroup.clone(), id).is_none() {
                let cgroups = self.cgroups.clone();
                self.guest.with(|state| state.cgroups = Some(cgroups));
                let event = Event::CgroupAppeared(cgroup, id);
                self.engine.handle(self.now, event);
            }
        }
    }

    fn measure(&mut self, machine: &Machine) -> Sample {
        let mut sample = Sample::default();
        let (mut used, mut files) = (0, 0);
        for (number, subject) in self.subjects.iter().enumerate() {
            let usage = machine.usage(number);
            let fixed = subject.processes_mib << 20;
            let anon = usage.anonymous as u64 * UNIT + fixed;
            let file = (usage.used - usage.anonymous) as u64 * UNIT;
            used += anon + file;
            files += file;
            let work = machine.work(number);
            let before = std::mem::replace(&mut self.before[number], work);
            let operations = (work.operations - before.operations) as f64;
            let application = match subject.promise.0 {
                Figure::Latency => (operations > 0.0)
                    .then(|| (work.latency - before.latency) as f64 / 1e6 / operations),
                _ => Some(operations / INTERVAL_S as f64),
            };
            let reading = Reading {
                current: anon + file,
                anon,
                file,
                refaults_file: usage.refaults.files * UNIT_PAGES,
                refaults_anon: usage.refaults.anonymous * UNIT_PAGES,
                application,
                ..Reading::default()
            };
            sample.containers.insert(path(subject), reading);
        }
        if let Some(mib) = self.memory_mib {
            let total = mib << 20;
            // This approximates `MemAvailable`: free memory and file cache.
            let available = total.saturating_sub(used) + files;
            sample.machine = engine::Machine {
                total,
                available,
                ..engine::Machine::default()
            };
        }
        sample
    }

    /// Passes the statistics of pools to the fake module.
    fn tell_statistics(&mut self, machine: &Machine) {
        let weights = self.weights();
        let sum: u32 = weights.iter().map(|(_, weight)| weight).sum();
        let pages = self.store_mib * UNITS_PER_MIB * UNIT_PAGES;
        let entitlement = |weight: u32| pages * u64::from(weight) / u64::from(sum.max(1));
        let subjects = &self.subjects;
        self.guest.with(|state| {
            for pool in &mut state.pools {
                let mut stats = PoolStats {
                    weight: pool.weight.into(),
                    entitlement: entitlement(pool.weight),
                    ..PoolStats::default()
                };
                if let Some(number) = number(subjects, pool.cgroup.as_deref()) {
                    let counts = machine.counts(number);
                    // Pages of processes are never requested.
                    let usage = machine.usage(number);
                    let asked = match usage.anonymous {
                        0 => machine.work(number).missed_units,
                        _ => counts.hits,
                    };
                    stats.used = counts.used * UNIT_PAGES;
                    stats.gets = asked * UNIT_PAGES;
                    stats.hits = counts.hits * UNIT_PAGES;
                    stats.misses = (asked - counts.hits) * UNIT_PAGES;
                    (pool.admission, pool.curve) = machine.sampled(number).unzip();
                }
                pool.stats = Some(stats);
            }
        });
    }

    fn perform(&mut self, action: Action, sample: &Sample) -> Outcome {
        let guest = &mut self.guest;
        let result = match &action {
            Action::Connect => {
                return Outcome::Connected(guest.status().map(drop).map_err(Failure::from));
            }
            Action::List => return Outcome::Listed(guest.pools().map_err(Failure::from)),
            Action::Scan => return Outcome::Scanned(self.cgroups.clone()),
            Action::Identify(cgroups) => {
                let unnamed = cgroups.iter().map(|cgroup| (cgroup.clone(), None));
                return Outcome::Identified(unnamed.collect());
            }
            Action::Measure(_) => return Outcome::Measured(sample.clone()),
            Action::Begin(job) => {
                self.jobs.push(job.clone());
                return Outcome::Begun;
            }
            Action::Add(pool) => guest.add_pool(pool).map(Some),
            Action::Remove(pool) => guest.remove_pool(*pool).map(|()| None),
            Action::Set(pool, change) => guest.set_pool(*pool, *change).map(|()| None),
        };
        Outcome::Changed {
            action,
            result: result.map_err(Failure::from),
        }
    }

    fn work(&self, machine: &mut Machine, second: u64, job: &Job) -> Result<(), Failure> {
        let refused = |words: &str| Err(Failure::Other(words.into()));
        let Job::Limit { cgroup, limits, .. } = job else {
            return refused("the file does not switch this on");
        };
        let (Some(number), Some(mib)) = (number(&self.subjects, Some(cgroup)), self.memory_mib)
        else {
            return refused("no such cgroup");
        };
        let Limits { low, high, max } = *limits;
        let fixed = self.subjects[number].processes_mib << 20;
        let units = |bytes: u64| (bytes.saturating_sub(fixed) / UNIT) as usize;
        let high = [high, max].into_iter().flatten().min();
        let high = high.map_or((mib * UNITS_PER_MIB) as usize, units);
        machine.limit(second, number, low.map_or(0, units), high);
        Ok(())
    }

    /// Returns the current weights; the default pool has no number.
    fn weights(&self) -> Vec<(Option<usize>, u32)> {
        self.guest.with(|state| {
            let pools = state.pools.iter();
            let weight = |pool: &ddnl::Pool| {
                let number = number(&self.subjects, pool.cgroup.as_deref());
                (number, pool.weight)
            };
            pools.map(weight).collect()
        })
    }
}

fn path(subject: &Subject) -> String {
    format!("/{}", subject.name)
}

fn number(subjects: &[Subject], cgroup: Option<&str>) -> Option<usize> {
    let name = cgroup?.strip_prefix('/')?;
    subjects.iter().position(|subject| subject.name == name)
}

/// Returns the daemon's file.
fn file(subjects: &[Subject], memory: bool) -> String {
    let mut file = String::from("default_pool_weight = 1\n");
    for Subject { name, promise, .. } in subjects {
        let (figure, value) = promise;
        let key = match figure {
            Figure::Latency => "latency_ms",
            _ => "throughput",
        };
        file.push_str(&format!(
            "[[container]]\nname = \"{name}\"\ncgroup = \"/{name}\"\nmanage_memory = {memory}\n\
             [container.target]\n{key} = {value:?}\nsource = {{ file = \"/run/{name}\" }}\n"
        ));
    }
    file
}

const _: () = assert!(UNIT == UNIT_PAGES * PAGE_SIZE as u64);

#[cfg(test)]
mod tests {
    use super::*;
    use ddcore::policy::{Order, Policy};
    use ddsim::host::Mode;
    use ddsim::machine::Container;
    use ddsim::parameters::MS;
    use ddsim::workload::Workload;
    use ddsim::workload::filebench::Webserver;
    use ddsim::workload::keyvalue::KeyValue;

    const STORE_MIB: u64 = 96;

    /// Returns two containers, and a daemon that has these operations a second as their targets.
    fn site(
        loads: [Box<dyn Workload>; 2],
        limit_mib: u64,
        memory: Option<u64>,
        promises: [f64; 2],
    ) -> (Machine, Control) {
        let mut machine = Machine::new(STORE_MIB, Mode::Weighted);
        let vm = machine.host().add_vm(100);
        for workload in loads {
            machine.add(Container {
                vm,
                limit_mib,
                weight: 100,
                policy: Policy::Fifo,
                processors: 1,
                threads: 2,
                start_s: 0,
                workload,
            });
        }
        let default = machine.host().add_pool(vm, 1, Order::Aged);
        if let Some(mib) = memory {
            machine.share_memory(mib);
        }
        let subject = |(name, promise)| Subject {
            name,
            promise: (Figure::Throughput, promise),
            start_s: 0,
            processes_mib: 0,
        };
        let subjects = ["a", "b"].into_iter().zip(promises).map(subject).collect();
        let control = Control::new(subjects, STORE_MIB, memory, default);
        (machine, control)
    }

    fn run(machine: &mut Machine, control: Option<&mut Control>, from: u64, until: u64) {
        let mut control = control;
        for second in (from..until).step_by(INTERVAL_S as usize) {
            machine.run(second);
            if let Some(control) = &mut control {
                control.look(machine, second);
            }
        }
    }

    #[test]
    fn the_store_goes_where_it_is_lacking() {
        let held = |promises| {
            let loads: [Box<dyn Workload>; 2] = [
                Box::new(Webserver::new(80, 1)),
                Box::new(Webserver::new(80, 2)),
            ];
            let (mut machine, mut control) = site(loads, 8, None, promises);
            run(&mut machine, Some(&mut control), 0, 400);
            let weights: u32 = control.weights().iter().map(|(_, weight)| weight).sum();
            assert_eq!(weights, 10_000, "{}", control.report());
            [0, 1].map(|at| machine.held_mib(at))
        };
        let [a, b] = held([1.0, 1e6]);
        assert!(b > 1.5 * a, "{a} {b}");
        let [a, b] = held([1e6, 1.0]);
        assert!(a > 1.5 * b, "{a} {b}");
    }

    /// A container that uses its own memory gets it, and is not swapped any more.
    #[test]
    fn memory_goes_to_a_container_that_swaps() {
        let swapped = |managed: bool| {
            let loads: [Box<dyn Workload>; 2] = [
                Box::new(KeyValue::in_memory(60, MS, 1)),
                Box::new(KeyValue::of_files(150, MS, 2)),
            ];
            let (mut machine, mut control) = site(loads, 100, Some(100), [500.0, 1.0]);
            run(&mut machine, managed.then_some(&mut control), 0, 600);
            let before = machine.usage(0).refaults.anonymous;
            run(&mut machine, managed.then_some(&mut control), 600, 900);
            machine.usage(0).refaults.anonymous - before
        };
        let (without, with) = (swapped(false), swapped(true));
        assert!(with * 4 < without, "{with} {without}");
    }
}
