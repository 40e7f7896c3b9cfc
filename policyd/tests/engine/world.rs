// SPDX-License-Identifier: GPL-2.0-only

//! Cgroups, a guest module and a clock in memory, driven by an engine.

use ddnl::{
    GuestControl, Pool,
    fake::{FakeGuest, Fault},
};
use policyd::{
    config::Config,
    discovery::Identity,
    engine::{Action, Engine, Event, Failure, Job, Machine, Outcome, Reading, Sample, Time},
};
use std::collections::BTreeMap;

pub(crate) struct World {
    /// The file it began with.
    pub(crate) file: String,
    pub(crate) engine: Engine,
    pub(crate) guest: FakeGuest,
    pub(crate) now: Time,
    /// Everything the engine did.
    pub(crate) log: Vec<Action>,
    /// Jobs that were begun and did not end yet.
    pub(crate) jobs: Vec<Job>,
    /// The runtimes' identities of cgroups.
    pub(crate) identities: BTreeMap<String, Identity>,
    /// The result of the next measurement.
    pub(crate) sample: Sample,
    next_cgroup: u64,
}

impl World {
    /// A world with a module, without cgroups.
    pub(crate) fn new(config: &str) -> Self {
        let guest = FakeGuest::default();
        guest.with(|state| state.cgroups = Some(BTreeMap::new()));
        Self {
            file: config.into(),
            engine: Engine::new(parse(config)),
            guest,
            now: Time::ZERO,
            log: Vec::new(),
            jobs: Vec::new(),
            identities: BTreeMap::new(),
            sample: Sample::default(),
            next_cgroup: 1,
        }
    }

    /// Creates a cgroup. `told` decides whether it is announced to the engine.
    pub(crate) fn make(&mut self, path: &str, told: bool) {
        let id = self.next_cgroup;
        self.next_cgroup += 1;
        self.make_numbered(path, id, told);
    }

    /// Creates a cgroup with a reading, and announces it.
    pub(crate) fn live(&mut self, path: &str, reading: Reading) {
        self.make(path, true);
        self.sample.containers.insert(path.into(), reading);
    }

    /// Sets memory of the VM and the available part of it, in MiB. There is swap, and no pressure
    /// so far.
    pub(crate) fn memory(&mut self, total: u64, available: u64) {
        self.sample.machine = Machine {
            total: total << 20,
            available: available << 20,
            swap_free: 1 << 30,
            memory_us: Some(0),
            ..Machine::default()
        };
    }

    /// Creates a cgroup with this id.
    pub(crate) fn make_numbered(&mut self, path: &str, id: u64, told: bool) {
        let made = self.guest.with(|state| {
            let cgroups = state.cgroups.as_mut().unwrap();
            let new = !cgroups.contains_key(path);
            if new {
                cgroups.insert(path.into(), id);
            }
            new
        });
        if made && told {
            self.tell(Event::CgroupAppeared(path.into(), id));
        }
    }

    /// Removes a cgroup. The kernel removes its pool at once, or later if it `lingers`.
    pub(crate) fn remove(&mut self, path: &str, told: bool, lingers: bool) {
        let removed = self.guest.with(|state| {
            let removed = state.cgroups.as_mut().unwrap().remove(path).is_some();
            if !lingers {
                state.remove_cgroup(path);
            }
            removed
        });
        if removed && told {
            self.tell(Event::CgroupVanished(path.into()));
        }
    }

    /// The kernel removes the pools of removed cgroups.
    pub(crate) fn reap(&mut self) {
        self.guest.with(|state| {
            let live: Vec<u64> = state.cgroups.as_ref().unwrap().values().copied().collect();
            state
                .pools
                .retain(|pool| pool.cgroup_id.is_none_or(|id| live.contains(&id)));
        });
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        self.guest.with(|state| state.fault = fault);
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.engine.handle(self.now, event);
    }

    /// Ends a job with success: all that it requested is reclaimed.
    pub(crate) fn end(&mut self, job: Job) {
        let given = match &job {
            Job::Limit { .. } => 0,
            Job::Reclaim { bytes, .. } => *bytes,
        };
        self.tell(Event::Ended(job, Ok(given)));
    }

    /// Performs all actions that are due now.
    pub(crate) fn act(&mut self) {
        const MAX_ACTIONS: usize = 3000;
        for _ in 0..MAX_ACTIONS {
            let Some(action) = self.engine.poll_action(self.now) else {
                let next = self.engine.poll_timeout();
                assert!(next > self.now, "would be polled again at once");
                return;
            };
            self.log.push(action.clone());
            let outcome = self.perform(action);
            self.tell(Event::Outcome(outcome));
        }
        let last = &self.log[self.log.len() - 8..];
        panic!("the engine does not come to rest: {last:#?}");
    }

    /// Lets time pass, and performs the engine's actions when they are due.
    pub(crate) fn pass(&mut self, time: Time) {
        let end = self.now + time;
        self.act();
        while self.engine.poll_timeout() <= end {
            self.now = self.engine.poll_timeout();
            self.act();
        }
        self.now = end;
        self.act();
    }

    fn perform(&mut self, action: Action) -> Outcome {
        let guest = &mut self.guest;
        let result = match &action {
            Action::Connect => {
                let connected = guest.status().map(drop).map_err(Failure::from);
                return Outcome::Connected(connected);
            }
            Action::List => return Outcome::Listed(guest.pools().map_err(Failure::from)),
            Action::Scan => {
                let cgroups = guest.with(|state| state.cgroups.clone().unwrap());
                return Outcome::Scanned(cgroups);
            }
            Action::Identify(cgroups) => {
                let answer = |cgroup: String| {
                    let identity = self.identities.get(&cgroup).cloned();
                    (cgroup, identity)
                };
                return Outcome::Identified(cgroups.iter().cloned().map(answer).collect());
            }
            Action::Measure(cgroups) => {
                let mut sample = self.sample.clone();
                sample
                    .containers
                    .retain(|cgroup, _| cgroups.contains(cgroup));
                return Outcome::Measured(sample);
            }
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

    /// Returns the pools by cgroup: name and weight.
    pub(crate) fn enrolled(&self) -> BTreeMap<String, (String, u32)> {
        let pools = self.guest.with(|state| state.pools.clone());
        let entry = |pool: Pool| Some((pool.cgroup?, (pool.name, pool.weight)));
        pools.into_iter().filter_map(entry).collect()
    }

    /// Returns the changes that the engine made since the last call.
    pub(crate) fn changes(&mut self) -> Vec<Action> {
        let log = std::mem::take(&mut self.log);
        let is_change = |action: &Action| {
            matches!(action, Action::Add(_) | Action::Remove(_) | Action::Set(..))
        };
        log.into_iter().filter(is_change).collect()
    }
}

pub(crate) fn parse(text: &str) -> Config {
    Config::parse(text).unwrap()
}
