// SPDX-License-Identifier: GPL-2.0

//! Decides what to do: events in, actions out, the time passed in. No I/O, no clock.
//!
//! The order of calls, for whoever drives it:
//! 1. [`Engine::handle`] with every event;
//! 2. [`Engine::poll_action`] until it answers `None`; each action is performed and its outcome
//!    handled before the next is polled;
//! 3. wait for an event, or until [`Engine::poll_timeout`].
//!
//! What a container should get (`targets`) and the weights that give it (`weights`) are apart:
//! today a target names its weight, a controller may choose it later.

mod event;
mod plan;
mod retry;
mod targets;
mod view;
mod weights;

pub use event::{Action, Cgroups, Event, Failure, Outcome, Time};

use crate::config::Config;
use plan::Plan;
use retry::Retries;
use std::collections::BTreeMap;
use tracing::{info, warn};
use view::View;

/// How often the cgroups are looked through, in case an announcement was lost.
const SCAN_EVERY: Time = Time::from_secs(30);

/// How soon after a failed change everything is looked at again.
const LOOK_AFTER_FAILURE: Time = Time::from_secs(1);

/// The daemon's mind.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    /// Cgroups that exist.
    cgroups: Cgroups,
    module: Module,
    /// Cgroups whose pools are ours to change and to remove, and the names we gave these.
    managed: BTreeMap<String, String>,
    retries: Retries,
    next_scan: Time,
    /// Why the module could not be used when it was last tried.
    trouble: Option<String>,
    /// An action was given out and its outcome is not known yet.
    busy: bool,
}

/// What is known of the guest module.
#[derive(Debug)]
enum Module {
    /// Not loaded, or not usable; tried again at this time.
    Absent { next_try: Time },
    /// Loaded; its pools are listed (again) at this time.
    Present { view: View, next_list: Time },
}

/// What the service manager shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Summary {
    /// Whether the module is there.
    pub module: bool,
    /// Containers of the file that exist.
    pub wanted: usize,
    /// Those of them that are enrolled.
    pub enrolled: usize,
}

impl Engine {
    /// An engine that has seen nothing yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            cgroups: Cgroups::new(),
            module: Module::Absent {
                next_try: Time::ZERO,
            },
            managed: BTreeMap::new(),
            retries: Retries::default(),
            next_scan: Time::ZERO,
            trouble: None,
            busy: false,
        }
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether the module is there, and how many of the wanted containers are enrolled.
    pub fn summary(&self) -> Summary {
        let targets = targets::of(&self.config, &self.cgroups);
        let (module, enrolled) = match &self.module {
            Module::Absent { .. } => (false, 0),
            Module::Present { view, .. } => {
                let present = view.of(&self.cgroups);
                let enrolled = |cgroup: &&String| present.contains_key(*cgroup);
                (true, targets.keys().filter(enrolled).count())
            }
        };
        Summary {
            module,
            wanted: targets.len(),
            enrolled,
        }
    }

    /// Takes in what happened.
    pub fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::CgroupAppeared(cgroup, id) => {
                self.retries.forget(&cgroup);
                self.cgroups.insert(cgroup, id);
            }
            Event::CgroupVanished(cgroup) => self.vanished(now, &cgroup),
            Event::CgroupsLost => self.next_scan = now,
            Event::ConfigLoaded(config) => self.reload(now, config),
            Event::ModuleCame => {
                self.retries.clear();
                if let Module::Absent { next_try } = &mut self.module {
                    *next_try = now;
                }
                self.list_by(now);
            }
            Event::ModuleWent => self.module = Module::Absent { next_try: now },
            Event::SessionChanged => {
                self.retries.clear();
                self.list_by(now);
            }
            Event::Outcome(outcome) => {
                self.busy = false;
                self.outcome(now, outcome);
            }
        }
    }

    /// What to do now, if anything. Its outcome is to be handled before the next poll.
    pub fn poll_action(&mut self, now: Time) -> Option<Action> {
        if self.busy {
            return None;
        }
        let action = self.decide(now);
        self.busy = action.is_some();
        action
    }

    /// When to poll again if nothing happens until then.
    pub fn poll_timeout(&self) -> Time {
        match &self.module {
            Module::Absent { next_try } => self.next_scan.min(*next_try),
            Module::Present { next_list, .. } => {
                let retry = self.retries.next().unwrap_or(Time::MAX);
                self.next_scan.min(*next_list).min(retry)
            }
        }
    }

    fn decide(&mut self, now: Time) -> Option<Action> {
        if self.next_scan <= now {
            return Some(Action::Scan);
        }
        let view = match &self.module {
            Module::Absent { next_try } => return (*next_try <= now).then_some(Action::Connect),
            Module::Present { next_list, .. } if *next_list <= now => return Some(Action::List),
            Module::Present { view, .. } => view,
        };
        let targets = targets::of(&self.config, &self.cgroups);
        let shares = weights::of(&targets);
        let present = view.of(&self.cgroups);
        self.managed
            .retain(|cgroup, _| targets.contains_key(cgroup) || view.mentions(cgroup));
        for (cgroup, pool) in &present {
            // The pool of a wanted cgroup is ours, whoever made it.
            if targets.contains_key(cgroup) && !self.managed.contains_key(cgroup) {
                self.managed.insert(cgroup.clone(), pool.name.clone());
            }
        }
        let next = Plan {
            now,
            retries: &self.retries,
            managed: &self.managed,
            cgroups: &self.cgroups,
            targets: &targets,
            shares: &shares,
            present: &present,
            default_pool: view.default_pool(),
            default_weight: self.config.default_pool_weight,
        }
        .next();
        if next.is_none() {
            // What may be tried again and is not tried now is not wanted any more.
            self.retries.forget_due(now);
        }
        next
    }

    fn reload(&mut self, now: Time, config: Config) {
        if self.config.cgroup_root != config.cgroup_root {
            self.cgroups.clear();
            self.next_scan = now;
        }
        self.config = config;
        self.retries.clear();
        self.list_by(now);
    }

    /// A cgroup is gone, and what was below it. The kernel removes its pool.
    fn vanished(&mut self, now: Time, cgroup: &str) {
        let below = format!("{cgroup}/");
        self.cgroups
            .retain(|other, _| other != cgroup && !other.starts_with(&below));
        self.list_by(now);
    }

    fn outcome(&mut self, now: Time, outcome: Outcome) {
        match outcome {
            Outcome::Scanned(cgroups) => self.scanned(now, cgroups),
            Outcome::Connected(Ok(())) => {
                self.retries.clear();
                self.module = Module::Present {
                    view: View::default(),
                    next_list: now,
                };
            }
            Outcome::Connected(Err(failure)) | Outcome::Listed(Err(failure)) => {
                self.no_module(now, &failure);
            }
            Outcome::Listed(Ok(pools)) => {
                // A list of a module that went meanwhile says nothing.
                if let Module::Present { view, next_list } = &mut self.module {
                    if view.replace(pools) {
                        info!("the guest module is there");
                    }
                    *next_list = now.saturating_add(self.config.interval);
                    self.trouble = None;
                }
            }
            Outcome::Changed { action, result } => self.changed(now, action, result),
        }
    }

    fn scanned(&mut self, now: Time, cgroups: Cgroups) {
        for (cgroup, id) in &cgroups {
            if self.cgroups.get(cgroup) != Some(id) {
                self.retries.forget(cgroup);
            }
        }
        if self.cgroups != cgroups {
            self.cgroups = cgroups;
            self.list_by(now);
        }
        self.next_scan = now.saturating_add(SCAN_EVERY);
    }

    /// Takes in how a change went.
    fn changed(&mut self, now: Time, action: Action, result: Result<Option<u32>, Failure>) {
        let Module::Present { view, .. } = &mut self.module else {
            return;
        };
        let key = view.cgroup_of(&action);
        match result {
            Ok(id) => {
                self.retries.forget(&key);
                match &action {
                    Action::Add(pool) => {
                        let (name, weight) = (&pool.name, pool.weight);
                        info!(cgroup = key, name, weight, "enrolled");
                        self.managed.insert(key, name.clone());
                    }
                    Action::Remove(_) => {
                        info!(cgroup = key, "removed");
                        self.managed.remove(&key);
                    }
                    Action::Set(_, change) => {
                        info!(cgroup = key, weight = change.weight, "adjusted");
                    }
                    Action::Connect | Action::List | Action::Scan => {}
                }
                view.apply(action, id, &self.cgroups);
            }
            Err(Failure::Gone) => self.no_module(now, &Failure::Gone),
            Err(failure) => {
                if self.retries.failed(now, &key, failure.text()) {
                    warn!(cgroup = key, "{}; will try again", failure.text());
                }
                // What we believe may be wrong: look at the cgroups and at the pools again.
                let soon = now.saturating_add(LOOK_AFTER_FAILURE);
                self.next_scan = self.next_scan.min(soon);
                self.list_by(soon);
            }
        }
    }

    fn no_module(&mut self, now: Time, failure: &Failure) {
        let text = failure.text();
        if self.trouble.as_deref() != Some(text) {
            warn!("{text}; will try again");
            self.trouble = Some(text.into());
        }
        self.module = Module::Absent {
            next_try: now.saturating_add(self.config.interval),
        };
    }

    /// Lists the pools at a time, or before.
    fn list_by(&mut self, time: Time) {
        if let Module::Present { next_list, .. } = &mut self.module {
            *next_list = time.min(*next_list);
        }
    }
}
