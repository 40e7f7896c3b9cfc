// SPDX-License-Identifier: GPL-2.0-only

//! Decides what to do. The engine gets events and the time, and returns actions. It has neither I/O
//! nor a clock.
//!
//! Its driver makes these calls:
//! 1. [`Engine::handle`] with every event;
//! 2. [`Engine::poll_action`] until it returns `None`. Each action is performed and its outcome
//!    handled before the next poll;
//! 3. it waits for an event, or until [`Engine::poll_timeout`].
//!
//! `matches` holds the cgroups that are containers. Without targets the file gives their weights;
//! with targets `controller` chooses them. `enrolment` changes the module's pools accordingly.
//! `knobs` limits guest memory.

mod bases;
mod busy;
mod character;
mod claim;
mod controller;
mod cursor;
mod curve;
mod damper;
mod division;
mod enrolment;
mod event;
mod explain;
mod fair;
mod goal;
mod guest_module;
mod help;
mod knobs;
mod limiter;
mod matches;
mod member;
mod memory;
mod names;
mod nest;
mod offload;
mod plan;
mod protection;
mod quantity;
mod rates;
mod read_time;
mod reclaim;
mod reclaimer;
mod report;
mod response;
mod retry;
mod round;
mod ruling;
mod sample;
mod shortage;
mod spare;
mod split;
mod ssd;
mod summary;
mod unmet;
mod view;

pub use character::Character;
pub use curve::Curve;
pub use event::{Action, Cgroups, Event, Failure, Job, Outcome, Time};
pub use goal::Goal;
pub use memory::Limits;
pub use protection::Protection;
pub use report::{Explanation, MemoryReport, Report};
pub use ruling::Verdict;
pub use sample::{Machine, Reading, Sample};
pub use summary::Summary;

pub(crate) use claim::is_rounded;
pub(crate) use nest::ancestors;

use crate::config::{Config, Container};
use controller::Controller;
use ddnl::Pool;
use enrolment::{Enrolment, Weights};
use guest_module::GuestModule;
use knobs::Knobs;
use matches::{Match, Matches};
use names::{NameChange, Names};
use round::Round;
use std::collections::{BTreeMap, BTreeSet};
use tracing::{info, warn};

/// Interval between scans of the cgroups, in case an announcement was lost.
const SCAN_EVERY: Time = Time::from_secs(30);

/// Delay of scans, lists of pools and decisions on weights after cgroups came or went, so that a
/// storm of changes causes few of them.
const STORM: Time = Time::from_secs(1);

/// Interval between measurements while memory is short.
const TIGHT: Time = Time::from_secs(1);

/// Delay after a failed change until cgroups and pools are read again.
const LOOK_AFTER_FAILURE: Time = Time::from_secs(1);

/// The policy engine: a state machine without I/O and without a clock.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    /// Cgroups that exist.
    cgroups: Cgroups,
    names: Names,
    /// Cgroups that match containers of the file.
    matches: BTreeMap<String, Match>,
    /// Containers of the file that more cgroups match than the file allows.
    crowded: BTreeSet<usize>,
    module: GuestModule,
    controller: Controller,
    /// Set if containers came or went since weights were decided.
    weights_outdated: bool,
    /// The earliest time to decide weights again for that reason.
    next_weighing: Time,
    knobs: Knobs,
    /// The time of the next measurement, and of the next decision.
    next_look: Time,
    next_round: Time,
    enrolment: Enrolment,
    next_scan: Time,
    /// The reason why the module could not be used at the last attempt.
    trouble: Option<String>,
    /// Set while the outcome of an action is outstanding.
    busy: bool,
}

impl Engine {
    /// Creates an engine that has not handled any event.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            cgroups: Cgroups::new(),
            names: Names::default(),
            matches: BTreeMap::new(),
            crowded: BTreeSet::new(),
            controller: Controller::default(),
            weights_outdated: true,
            next_weighing: Time::ZERO,
            knobs: Knobs::default(),
            next_look: Time::ZERO,
            next_round: Time::ZERO,
            module: GuestModule::Absent {
                next_try: Time::ZERO,
            },
            enrolment: Enrolment::default(),
            next_scan: Time::ZERO,
            trouble: None,
            busy: false,
        }
    }

    /// Returns the configuration in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns whether the module is loaded, and how many of the wanted containers are enrolled.
    pub fn summary(&self) -> Summary {
        let pools = self.module.pools(&self.cgroups);
        let enrolled = |cgroup: &&String| pools.contains_key(cgroup.as_str());
        Summary {
            module: self.module.is_present(),
            wanted: self.matches.len(),
            enrolled: self.matches.keys().filter(enrolled).count(),
            feasible: self.controller.feasible(),
        }
    }

    /// Returns the existing containers: cgroup, name of the pool, and entry of the file.
    pub fn matches(&self) -> impl Iterator<Item = (&str, &str, &Container)> + Clone {
        self.matches.iter().map(|(cgroup, matched)| {
            let container = &self.config.containers[matched.container];
            (cgroup.as_str(), matched.name.as_str(), container)
        })
    }

    /// Returns the cgroups whose pools the daemon made. A scan includes them as long as they exist,
    /// even if no container of the file can match them any more.
    pub fn managed(&self) -> impl Iterator<Item = &str> {
        self.enrolment.managed.keys().map(String::as_str)
    }

    /// Handles an event.
    pub fn handle(&mut self, now: Time, event: Event) {
        if !leaves_changes(&event) {
            self.enrolment.changes.clear();
        }
        match event {
            // Both a scan and an announcement may report it.
            Event::CgroupAppeared(cgroup, id) if self.cgroups.get(&cgroup) == Some(&id) => {}
            Event::CgroupAppeared(cgroup, id) => {
                self.enrolment.retries.forget(&cgroup);
                self.appeared(now, &cgroup);
                self.cgroups.insert(cgroup.clone(), id);
                self.match_cgroup(&cgroup);
            }
            Event::CgroupVanished(cgroup) => self.vanished(now, &cgroup),
            Event::CgroupsLost => self.next_scan = now,
            Event::ConfigLoaded(config) => self.reload(now, config),
            Event::ModuleCame => {
                self.enrolment.retries.clear();
                if let GuestModule::Absent { next_try } = &mut self.module {
                    *next_try = now;
                }
                self.module.list_by(now);
            }
            Event::ModuleWent => self.module = GuestModule::Absent { next_try: now },
            Event::SessionChanged => {
                self.enrolment.retries.clear();
                self.module.list_by(now);
            }
            Event::Outcome(outcome) => {
                self.busy = false;
                self.outcome(now, outcome);
            }
            Event::Ended(job, result) => self.knobs.ended(now, job, result),
        }
    }

    /// Returns the next action, if there is one. Its outcome is to be handled before the next poll.
    pub fn poll_action(&mut self, now: Time) -> Option<Action> {
        if self.busy {
            return None;
        }
        let action = self.decide(now);
        self.busy = action.is_some();
        action
    }

    /// Returns the time of the next poll if there is no event before.
    pub fn poll_timeout(&self) -> Time {
        let module = match &self.module {
            GuestModule::Absent { next_try } => *next_try,
            GuestModule::Present { next_list, .. } => {
                // Weights are decided before pools are changed, or a change is tried again.
                let change = match self.needs_weights() {
                    true => Some(self.next_weighing),
                    false => self.enrolment.retries.next(),
                };
                change.unwrap_or(Time::MAX).min(*next_list)
            }
        };
        let names = self.names.next().filter(|_| self.config.asks_names());
        let look = Some(self.next_look).filter(|_| self.looks());
        [names, look]
            .into_iter()
            .flatten()
            .fold(self.next_scan.min(module), Time::min)
    }

    /// Returns whether containers came or went, so that all weights have to be decided again.
    fn needs_weights(&self) -> bool {
        self.weights_outdated && self.config.is_controlled()
    }

    /// Returns whether to measure: because a setting needs figures, or because limits have to be
    /// undone.
    fn looks(&self) -> bool {
        self.config.measures() || self.knobs.limiter.has_limits()
    }

    fn decide(&mut self, now: Time) -> Option<Action> {
        if self.next_scan <= now {
            return Some(Action::Scan);
        }
        if self.config.asks_names() {
            let due = self.names.due(now);
            if !due.is_empty() {
                return Some(Action::Identify(due));
            }
        }
        if let Some(action) = self.module.due(now) {
            return Some(action);
        }
        if self.looks() && self.next_look <= now {
            return Some(Action::Measure(self.matches.keys().cloned().collect()));
        }
        if let Some(job) = self.knobs.next() {
            return Some(Action::Begin(job));
        }
        self.next_change(now)
    }

    /// Returns the next change of a pool.
    fn next_change(&mut self, now: Time) -> Option<Action> {
        if let Some(next) = self.enrolment.changes.pop_front() {
            return Some(next);
        }
        let view = self.module.view()?;
        let matches = Matches {
            config: &self.config,
            by_cgroup: &self.matches,
        };
        if self.needs_weights() {
            if now < self.next_weighing {
                return None;
            }
            self.controller.fit(matches);
            self.weights_outdated = false;
            self.next_weighing = now.saturating_add(STORM);
        }
        let by_hand = BTreeMap::new();
        let (weights, ssd_weights) = match matches.config.is_controlled() {
            true => (self.controller.weights(), self.controller.ssd_weights()),
            false => (&by_hand, &by_hand),
        };
        let weights = Weights {
            memory: weights,
            ssd: ssd_weights,
        };
        let present = view.of(&self.cgroups);
        self.enrolment
            .compare(now, matches, weights, view, &present)
    }

    /// Handles a measurement, and decides if it is time to.
    fn measured(&mut self, now: Time, sample: &Sample) {
        self.knobs.observe(now, &sample.machine);
        let whole = self.next_round <= now;
        if whole {
            self.next_round = now.saturating_add(self.config.interval);
            self.weigh(now, sample);
        }
        let round = Round {
            now,
            matches: Matches {
                config: &self.config,
                by_cgroup: &self.matches,
            },
            cgroups: &self.cgroups,
            controller: &self.controller,
            sample,
        };
        self.knobs.reclaim(&round);
        if whole {
            self.knobs.offload(&round);
            self.knobs.limit(&round);
        }
        self.next_look = if self.knobs.is_tight(&self.config) {
            self.next_round.min(now.saturating_add(TIGHT))
        } else {
            self.next_round
        };
    }

    /// Handles the figures of containers, and decides their weights.
    fn weigh(&mut self, now: Time, sample: &Sample) {
        let matches = Matches {
            config: &self.config,
            by_cgroup: &self.matches,
        };
        let pools = self.module.pools(&self.cgroups);
        let default = self.module.default_pool();
        self.controller
            .observe(now, matches, &pools, default, sample);
        if matches.config.is_controlled() {
            let was = self.controller.feasible();
            self.controller.decide(matches);
            self.weights_outdated = false;
            log_feasible(was, self.controller.feasible());
        }
    }

    /// Handles a new cgroup, which may have replaced one of the same path.
    fn appeared(&mut self, now: Time, cgroup: &str) {
        self.names.appeared(now, cgroup);
        self.knobs.forget(cgroup);
    }

    /// Updates the match of a cgroup.
    fn match_cgroup(&mut self, cgroup: &str) {
        let mut matched = matches::find(&self.config, cgroup, &self.names);
        if let Some(at) = matched.as_ref().map(|matched| matched.container) {
            if !matches::has_room(&self.config, &self.matches, cgroup, at) {
                matched = None;
                self.warn_of_crowd(at);
            }
        }
        let known = self.matches.get(cgroup);
        if matched.as_ref() != known {
            self.weights_outdated = true;
            match matched {
                Some(matched) => self.matches.insert(cgroup.into(), matched),
                None => self.matches.remove(cgroup),
            };
        }
    }

    /// Updates the matches of all cgroups.
    fn match_all(&mut self) {
        let pools = self.module.pools(&self.cgroups);
        let (matches, crowded) = matches::find_all(
            &self.config,
            &self.cgroups,
            &self.names,
            |cgroup| pools.contains_key(cgroup),
            &self.matches,
        );
        self.weights_outdated |= matches != self.matches;
        self.matches = matches;
        self.crowded.retain(|at| crowded.contains(at));
        for at in crowded {
            self.warn_of_crowd(at);
        }
    }

    /// Warns once that more cgroups match a container than the file allows.
    fn warn_of_crowd(&mut self, at: usize) {
        if !self.crowded.insert(at) {
            return;
        }
        let container = &self.config.containers[at];
        let (name, most) = (&container.name, container.max_cgroups());
        if container.selector.is_glob() {
            warn!(
                name,
                most, "more cgroups match than `most_cgroups`; the others are ignored"
            );
        } else {
            warn!(
                name,
                "several cgroups match a selector of one; the first one is kept"
            );
        }
    }

    fn reload(&mut self, now: Time, config: Config) {
        if self.config.cgroup_root != config.cgroup_root {
            self.cgroups.clear();
        }
        // The new file may select other cgroups.
        self.next_scan = now;
        self.config = config;
        if !self.config.is_controlled() {
            self.controller.retire();
        }
        self.knobs.limiter.reload();
        self.names.retain(&self.cgroups);
        self.names.ask_again(now);
        self.crowded.clear();
        self.match_all();
        self.weights_outdated = true;
        self.next_look = now;
        self.next_round = now;
        self.enrolment.retries.clear();
        self.module.list_by(now);
    }

    /// Handles the end of a cgroup and of those below it. The kernel removes their pools. Most
    /// cgroups that come and go belong to no container, and to list pools is expensive, so pools
    /// are listed only if one of ours is concerned.
    fn vanished(&mut self, now: Time, cgroup: &str) {
        let below = format!("{cgroup}/");
        let range = self.cgroups.range(below.clone()..);
        let within = range
            .map(|(path, _)| path)
            .take_while(|path| path.starts_with(&below));
        let mut gone: Vec<String> = within.cloned().collect();
        gone.extend(self.cgroups.contains_key(cgroup).then(|| cgroup.into()));
        let mut left = false;
        for path in gone {
            self.cgroups.remove(&path);
            self.names.forget(&path);
            left |= self.matches.remove(&path).is_some();
        }
        self.weights_outdated |= left;
        if left && !self.crowded.is_empty() {
            // A cgroup that was left out may match now.
            let soon = now.saturating_add(STORM);
            self.next_scan = self.next_scan.min(soon);
        }
        let GuestModule::Present { view, listed, .. } = &self.module else {
            return;
        };
        if left || view.concerns(cgroup) {
            let soon = listed.saturating_add(STORM).max(now);
            self.module.list_by(soon);
        }
    }

    fn outcome(&mut self, now: Time, outcome: Outcome) {
        match outcome {
            Outcome::Scanned(cgroups) => self.scanned(now, cgroups),
            Outcome::Connected(Ok(())) => {
                self.enrolment.retries.clear();
                self.module = GuestModule::found(now);
            }
            Outcome::Listed(Err(Failure::Busy)) => {
                if let GuestModule::Present { next_list, .. } = &mut self.module {
                    *next_list = now.saturating_add(LOOK_AFTER_FAILURE);
                }
            }
            Outcome::Connected(Err(failure)) | Outcome::Listed(Err(failure)) => {
                self.no_module(now, &failure);
            }
            Outcome::Listed(Ok(pools)) => self.listed(now, pools),
            Outcome::Changed { action, result } => self.changed(now, action, result),
            Outcome::Identified(answers) => {
                let cgroups: Vec<String> = answers.keys().cloned().collect();
                match self.names.identified(now, answers) {
                    NameChange::None => {}
                    NameChange::Named => {
                        cgroups.iter().for_each(|cgroup| self.match_cgroup(cgroup));
                    }
                    // A renamed container may match another entry now.
                    NameChange::Renamed => self.match_all(),
                }
            }
            Outcome::Measured(sample) => self.measured(now, &sample),
            Outcome::Begun => {}
        }
    }

    fn listed(&mut self, now: Time, pools: Vec<Pool>) {
        // The list is outdated if the module was unloaded in the meantime.
        let GuestModule::Present {
            view,
            listed,
            next_list,
        } = &mut self.module
        else {
            return;
        };
        *listed = now;
        *next_list = now.saturating_add(self.config.interval);
        self.trouble = None;
        if !view.replace(pools) {
            return;
        }
        info!("the guest module is loaded");
        // If too many cgroups match, those with a pool are preferred. The list shows which have
        // one.
        self.match_all();
        let matches = Matches {
            config: &self.config,
            by_cgroup: &self.matches,
        };
        let pools = self.module.pools(&self.cgroups);
        let default = self.module.default_pool();
        self.controller.adopt(matches, &pools, default);
    }

    fn scanned(&mut self, now: Time, cgroups: Cgroups) {
        for (cgroup, id) in &cgroups {
            if self.cgroups.get(cgroup) != Some(id) {
                self.enrolment.retries.forget(cgroup);
                self.names.appeared(now, cgroup);
                self.knobs.forget(cgroup);
            }
        }
        let news = self.cgroups != cgroups;
        if news {
            self.cgroups = cgroups;
            self.names.retain(&self.cgroups);
            self.module.list_by(now);
        }
        if news || !self.crowded.is_empty() {
            self.match_all();
        }
        self.next_scan = now.saturating_add(SCAN_EVERY);
    }

    /// Handles the result of a change.
    fn changed(&mut self, now: Time, action: Action, result: Result<Option<u32>, Failure>) {
        let GuestModule::Present { view, .. } = &mut self.module else {
            return;
        };
        let key = view.cgroup_of(&action, &self.cgroups);
        match result {
            Ok(id) => {
                self.enrolment.retries.forget(&key);
                match &action {
                    Action::Add(pool) => {
                        let (name, weight) = (&pool.name, pool.weight);
                        info!(cgroup = key, name, weight, "enrolled");
                        self.enrolment.managed.insert(key, ddnl::listed_name(name));
                    }
                    Action::Remove(_) => {
                        info!(cgroup = key, "removed");
                        self.enrolment.managed.remove(&key);
                    }
                    Action::Set(_, change) => {
                        info!(cgroup = key, weight = change.weight, "adjusted");
                    }
                    _ => {}
                }
                view.apply(action, id, &self.cgroups);
            }
            Err(Failure::Gone) => self.no_module(now, &Failure::Gone),
            Err(failure) => {
                if self.enrolment.retries.failed(now, &key, failure.text()) {
                    warn!(cgroup = key, "{}; will try again", failure.text());
                }
                // The engine's state may be wrong, so cgroups and pools are read again.
                let soon = now.saturating_add(LOOK_AFTER_FAILURE);
                self.next_scan = self.next_scan.min(soon);
                self.module.list_by(soon);
            }
        }
    }

    fn no_module(&mut self, now: Time, failure: &Failure) {
        let text = failure.text();
        if self.trouble.as_deref() != Some(text) {
            warn!("{text}; will try again");
            self.trouble = Some(text.into());
        }
        self.module = GuestModule::Absent {
            next_try: now.saturating_add(self.config.interval),
        };
    }
}

/// Returns whether the changes of pools that were found to be necessary stay valid after an event.
const fn leaves_changes(event: &Event) -> bool {
    matches!(
        event,
        Event::Ended(..) | Event::Outcome(Outcome::Begun | Outcome::Changed { result: Ok(_), .. })
    )
}

/// Logs whether all targets can be met, when it becomes known and when it changes.
fn log_feasible(was: Option<bool>, is: Option<bool>) {
    match is {
        Some(false) if was != is => {
            warn!("not all targets can be met, so that classes decide (`policyd explain`)");
        }
        Some(true) if was == Some(false) => info!("all targets can be met again"),
        _ => {}
    }
}
