// SPDX-License-Identifier: GPL-2.0

//! Guest memory: limits, proportional reclaim and offload, as jobs to begin.

use super::{
    Cgroups, Failure, Job, Time,
    busy::Busy,
    character::Character,
    claim::Claim,
    controller::Controller,
    memory::{Limits, Managed, Memory},
    nest::{self, Inner, ancestors},
    offload,
    protection::{self, Protection},
    reclaim::{self, Candidate},
    retry::Retries,
    sample::{Machine, Sample},
    targets::Target,
};
use crate::config::{Config, Container};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tracing::{debug, info, warn};

/// What is done with guest memory.
#[derive(Debug, Default)]
pub(super) struct Knobs {
    memory: Memory,
    /// Containers that are protected less than their `memory.low` says.
    unprotected: BTreeMap<String, Protection>,
    /// Limits that may be in force, until they are known to be undone.
    claims: BTreeMap<String, Claim>,
    waiting: VecDeque<Job>,
    /// Containers whose limits are being set: the kernel may reclaim for long, and the next ones
    /// must not overtake.
    limiting: BTreeSet<String>,
    /// Containers that are being reclaimed from.
    reclaiming: BTreeSet<String>,
    /// When containers that gave nothing may be asked again.
    resting: BTreeMap<String, Time>,
    next_offload: BTreeMap<String, Time>,
    retries: Retries,
    machine: Option<(Time, Machine)>,
    /// Bytes of available memory that cache files of those who take part in reclaim.
    cache: u64,
    busy: Busy,
    /// Percent of time in which a task of the VM waited for memory, other than for our jobs.
    pressure: Option<f64>,
    /// Whether the kernel reclaimed memory of the VM as a whole since the last look, as far as is
    /// known.
    reclaims: bool,
    /// Containers from which nothing may be reclaimed.
    refused: Retries,
    /// Bytes that were given so far.
    pub(super) reclaimed: u64,
    pub(super) offloaded: u64,
}

/// A container that gave one part in so many of what it was asked for gave something, and may be
/// asked again: what is still being written to swap does not count.
const GOOD: u64 = 4;
/// How long a container that gave nothing is left in peace.
const REST: Time = Time::from_secs(30);
/// So many times what shall be available is enough for pressure to be no shortage of the VM.
const LITTLE: u64 = 3;
/// Most chunks of one round.
const MOST_CHUNKS: u64 = 8;

/// What a round needs to know.
pub(super) struct Round<'a> {
    pub(super) now: Time,
    pub(super) config: &'a Config,
    pub(super) targets: &'a BTreeMap<String, Target>,
    pub(super) cgroups: &'a Cgroups,
    pub(super) controller: &'a Controller,
    pub(super) sample: &'a Sample,
}

impl<'a> Round<'a> {
    pub(super) fn containers(&self) -> impl Iterator<Item = (&'a String, &'a Container)> {
        let containers = &self.config.containers;
        self.targets
            .iter()
            .map(|(cgroup, target)| (cgroup, &containers[target.container]))
    }

    /// Bytes that cache files of the containers which take part in reclaim.
    fn cache(&self) -> u64 {
        let containers = &self.config.containers;
        let takes_part = |cgroup: &str| {
            let target = self.targets.get(cgroup);
            target.is_some_and(|target| containers[target.container].reclaim)
        };
        // What is below another is counted there.
        self.sample
            .containers
            .iter()
            .filter(|(cgroup, _)| takes_part(cgroup) && !ancestors(cgroup).any(takes_part))
            .map(|(_, reading)| reading.file)
            .fold(0, u64::saturating_add)
    }
}

impl Knobs {
    /// The next job.
    pub(super) fn next(&mut self) -> Option<Job> {
        self.waiting.pop_front()
    }

    /// Memory pressure of the VM in percent, if known.
    pub(super) const fn pressure(&self) -> Option<f64> {
        self.pressure
    }

    pub(super) fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref().map(|(_, machine)| machine)
    }

    /// The limits in force for a container.
    pub(super) fn limits(&self, cgroup: &str) -> Limits {
        let claim = self.claims.get(cgroup);
        claim.map(Claim::in_force).unwrap_or_default()
    }

    /// What files say that others changed after policyd had set a limit there.
    pub(super) fn foreign(&self, cgroup: &str) -> Limits {
        let claim = self.claims.get(cgroup);
        claim.map(|claim| claim.foreign).unwrap_or_default()
    }

    /// Why a container is protected less than its `memory.low` says, if so.
    pub(super) fn unprotected(&self, cgroup: &str) -> Option<&Protection> {
        self.unprotected.get(cgroup)
    }

    /// The configuration was read again.
    pub(super) fn reload(&mut self) {
        self.claims.values_mut().for_each(Claim::reload);
    }

    /// Whether limits may be in force that are to be undone some day.
    pub(super) fn has_limits(&self) -> bool {
        !self.claims.is_empty()
    }

    /// Takes in a look at the machine.
    pub(super) fn observe(&mut self, now: Time, machine: &Machine) {
        let own = self.busy.take(now).as_secs_f64();
        self.pressure = self.machine.and_then(|(then, was)| {
            let time = now.checked_sub(then)?.as_secs_f64();
            let more = machine.memory_us?.checked_sub(was.memory_us?)?;
            let others = (more as f64 / 1e6 - own).max(0.0);
            (time > 0.0).then(|| (others / time * 100.0).min(100.0))
        });
        self.reclaims = self.machine.is_none_or(|(_, was)| {
            let counts = was.reclaims.zip(machine.reclaims);
            counts.is_none_or(|(was, is)| was != is)
        });
        self.machine = Some((now, *machine));
    }

    /// Whether memory is so short that it should be looked at more often.
    pub(super) fn is_tight(&self, config: &Config) -> bool {
        config.reclaim.enabled && self.shortage(config) > 0
    }

    /// Bytes to reclaim now. What is available only because the kernel would take it from
    /// somebody's cache is not: then the kernel would choose from whose.
    fn shortage(&self, config: &Config) -> u64 {
        let Some((_, machine)) = &self.machine else {
            return 0;
        };
        let wanted = (machine.total as f64 * config.reclaim.free) as u64;
        let left = machine.available.saturating_sub(self.cache);
        let short = wanted.saturating_sub(left);
        // A container at a limit of its own waits for memory too, and nothing that others give
        // would help it. It is the VM that is short where the kernel reclaims from all, and little
        // is left.
        let little = left < wanted.saturating_mul(LITTLE);
        let waits = self
            .pressure
            .is_some_and(|now| now >= config.reclaim.pressure);
        if waits && little && self.reclaims {
            short.max(config.reclaim.chunk)
        } else {
            short
        }
    }

    /// Reclaims in proportion while memory is short.
    pub(super) fn reclaim(&mut self, round: &Round<'_>) {
        self.resting.retain(|_, until| *until > round.now);
        self.refused
            .retain(|cgroup| round.cgroups.contains_key(cgroup));
        let config = &round.config.reclaim;
        self.cache = round.cache();
        let shortage = if config.enabled {
            self.shortage(round.config)
        } else {
            0
        };
        // What is under way may be enough.
        if shortage == 0 || !self.reclaiming.is_empty() {
            return;
        }
        let swap = round.sample.machine.swap_free > config.chunk;
        let (nest, alone) = (nest::of(round), Inner::default());
        let candidate = |(cgroup, container): (&String, &Container)| {
            let reading = round.sample.containers.get(cgroup)?;
            let (rank, inner) = (
                container.rank(),
                nest.get(cgroup.as_str()).unwrap_or(&alone),
            );
            if !container.reclaim
                || inner.no_reclaim
                || inner.is_above(rank)
                || self.resting.contains_key(cgroup)
            {
                return None;
            }
            let own = inner.own(reading);
            // The floor is that of the whole.
            let inside = reading.current - own.current;
            let floor = container.memory_floor.map_or(0, |floor| floor.0);
            let floor = floor.saturating_sub(inside);
            let stuck = if swap { own.stuck() } else { own.fixed() };
            Some(Candidate {
                cgroup: cgroup.clone(),
                rank,
                weight: container.memory_weight.unwrap_or(container.weight).max(1),
                usage: own.current,
                least: floor.max(stuck).max(offload::LEAST_LEFT),
            })
        };
        let candidates = round.containers().filter_map(candidate).collect();
        let amount = shortage.min(config.chunk.saturating_mul(MOST_CHUNKS));
        for (cgroup, bytes) in reclaim::victims(candidates, amount, config.chunk) {
            info!(
                cgroup,
                bytes,
                pressure = self.pressure.unwrap_or(0.0),
                "memory is short: reclaiming"
            );
            self.begin_reclaim(round.now, cgroup, bytes, false);
        }
    }

    /// Pushes cold pages out.
    pub(super) fn offload(&mut self, round: &Round<'_>) {
        let config = &round.config.offload;
        let (nest, alone) = (nest::of(round), Inner::default());
        self.next_offload
            .retain(|cgroup, _| round.targets.contains_key(cgroup));
        for (cgroup, container) in round.containers() {
            let next = self.next_offload.get(cgroup);
            let inner = nest.get(cgroup.as_str()).unwrap_or(&alone);
            if inner.no_offload
                || !container.offload.unwrap_or(config.enabled)
                || next.is_some_and(|next| *next > round.now)
                || self.reclaiming.contains(cgroup)
                || self.resting.contains_key(cgroup)
            {
                continue;
            }
            let Some(member) = round.controller.member(cgroup) else {
                continue;
            };
            let Some(rates) = member.rates.as_ref().filter(|_| !member.misses_target()) else {
                continue;
            };
            let least = container.memory_floor.map_or(0, |floor| floor.0);
            let own = inner.own(&member.reading);
            let least = least.saturating_sub(member.reading.current - own.current);
            let bytes = offload::step(config, rates, own.current, own.file, least);
            if bytes > 0 {
                debug!(cgroup, bytes, "pushing cold pages out");
                let next = round.now.saturating_add(config.period);
                self.next_offload.insert(cgroup.clone(), next);
                self.begin_reclaim(round.now, cgroup.clone(), bytes, true);
            }
        }
    }

    fn begin_reclaim(&mut self, now: Time, cgroup: String, bytes: u64, files_only: bool) {
        self.busy.begin(now);
        self.reclaiming.insert(cgroup.clone());
        self.waiting.push_back(Job::Reclaim {
            cgroup,
            bytes,
            files_only,
        });
    }

    /// Decides limits, and asks for those that changed.
    pub(super) fn limit(&mut self, round: &Round<'_>) {
        self.claims
            .retain(|cgroup, claim| round.cgroups.get(cgroup) == Some(&claim.id));
        for (cgroup, claim) in &mut self.claims {
            let reading = round.sample.containers.get(cgroup);
            // While a job is under way, files may say one thing or the other.
            if let Some(reading) = reading.filter(|_| !self.limiting.contains(cgroup)) {
                claim.observe(cgroup, &reading.limits);
            }
        }
        let (nest, alone) = (nest::of(round), Inner::default());
        let managed = round.containers().filter_map(|(cgroup, container)| {
            let member = round.controller.member(cgroup)?;
            let rates = member.rates.as_ref()?;
            if !container.manage_memory {
                return None;
            }
            let inner = nest.get(cgroup.as_str()).unwrap_or(&alone);
            let needy = member.misses_target() || rates.refaults_anon > NEEDY;
            let fixed = member.reading.fixed();
            let managed = Managed {
                rank: container.rank(),
                character: member.character(),
                spared: inner.unmanaged || inner.is_above(container.rank()),
                settled: !self.limiting.contains(cgroup) && self.foreign(cgroup).high.is_none(),
                waits: rates.memory_full.unwrap_or(0.0),
                needy: needy && member.character() == Character::Anonymous,
                current: member.reading.current,
                // Cache of containers inside is theirs to give.
                fixed: fixed
                    .saturating_add(inner.file)
                    .min(fixed.max(member.reading.current)),
                floor: container.memory_floor.map(|floor| floor.0),
                ceiling: container.memory_ceiling.map(|ceiling| ceiling.0),
            };
            Some((cgroup.clone(), managed))
        });
        let managed: BTreeMap<String, Managed> = managed.collect();
        let manages = |cgroup: &str| {
            let target = round.targets.get(cgroup);
            target.is_some_and(|target| round.config.containers[target.container].manage_memory)
        };
        self.memory.retain(manages);
        self.memory.decide(&round.sample.machine, &managed);
        self.retries
            .retain(|cgroup| round.cgroups.contains_key(cgroup));
        // A container that cannot be read for once keeps its limits; one that left the file, or
        // is not managed any more, gets back what it had.
        let left = self.claims.keys().filter(|cgroup| !manages(cgroup));
        let left = left.map(|cgroup| (cgroup.clone(), Limits::default()));
        let found = |cgroup: &str| {
            let reading = round.sample.containers.get(cgroup);
            reading.map(|reading| reading.limits).unwrap_or_default()
        };
        let claim = |cgroup: &str, id: u64| {
            let claim = self.claims.get(cgroup).cloned();
            claim.unwrap_or_else(|| Claim::new(id, found(cgroup)))
        };
        let now = managed.keys().map(|cgroup| {
            let id = round.cgroups.get(cgroup).copied().unwrap_or_default();
            let wish = claim(cgroup, id).wish(&self.memory.limits(cgroup));
            (cgroup.clone(), wish)
        });
        let wanted: Vec<(String, Limits)> = left.chain(now).collect();
        let (mut jobs, mut begun) = (Vec::new(), Vec::new());
        for (cgroup, limits) in wanted {
            let Some(id) = round.cgroups.get(&cgroup).copied() else {
                continue;
            };
            let claim = claim(&cgroup, id);
            if !claim.needs(&limits)
                || self.limiting.contains(&cgroup)
                || !self.retries.may(round.now, &cgroup)
            {
                continue;
            }
            info!(
                cgroup,
                low = limits.low,
                high = limits.high,
                max = limits.max,
                "guest memory limits"
            );
            let anew = claim.anew;
            jobs.push(Job::Limit {
                cgroup: cgroup.clone(),
                id,
                limits,
                anew,
            });
            begun.push((cgroup, claim));
        }
        for (cgroup, claim) in begun {
            self.busy.begin(round.now);
            self.limiting.insert(cgroup.clone());
            self.claims.insert(cgroup, claim);
        }
        self.waiting.extend(jobs);
        self.protect(&round.sample.lows);
    }

    /// Finds out what `memory.low` of containers protects, and says where that is less.
    fn protect(&mut self, lows: &BTreeMap<String, u64>) {
        let claims = self.claims.iter();
        let claims = claims.filter_map(|(cgroup, claim)| Some((cgroup.as_str(), claim.low()?)));
        let lacking = protection::lacking(&claims.collect(), lows);
        for (cgroup, found) in &lacking {
            let Protection {
                bytes, ancestor, ..
            } = found;
            if self.unprotected.get(cgroup) != Some(found) {
                warn!(
                    cgroup,
                    "memory.low protects {bytes} bytes only: that of {ancestor} is {} of {}",
                    found.has,
                    found.needs
                );
            }
        }
        self.unprotected = lacking;
    }

    /// A job ended.
    pub(super) fn ended(&mut self, now: Time, job: Job, result: Result<u64, Failure>) {
        match (job, result) {
            (
                Job::Reclaim {
                    cgroup,
                    bytes,
                    files_only,
                },
                Ok(given),
            ) => {
                self.reclaiming.remove(&cgroup);
                self.refused.forget(&cgroup);
                let sum = if files_only {
                    &mut self.offloaded
                } else {
                    &mut self.reclaimed
                };
                *sum = sum.saturating_add(given);
                if given < bytes / GOOD {
                    // The kernel found less than was asked for: nothing unusual.
                    debug!(cgroup, bytes, given, "gave little");
                    self.resting.insert(cgroup, now.saturating_add(REST));
                }
            }
            (Job::Reclaim { cgroup, .. }, Err(failure)) => {
                self.reclaiming.remove(&cgroup);
                if failure != Failure::Vanished && self.refused.failed(now, &cgroup, failure.text())
                {
                    warn!(cgroup, "cannot reclaim: {}; will try again", failure.text());
                }
                self.resting.insert(cgroup, now.saturating_add(REST));
            }
            (
                Job::Limit {
                    cgroup, id, limits, ..
                },
                Ok(_),
            ) => {
                self.limiting.remove(&cgroup);
                self.retries.forget(&cgroup);
                let claim = self.claims.get_mut(&cgroup);
                if let Some(claim) = claim.filter(|claim| claim.id == id) {
                    (claim.set, claim.is_known, claim.anew) = (limits, true, false);
                    if limits == Limits::default() {
                        self.claims.remove(&cgroup);
                    }
                }
            }
            (Job::Limit { cgroup, .. }, Err(Failure::Vanished)) => {
                self.limiting.remove(&cgroup);
                self.claims.remove(&cgroup);
                self.forget(&cgroup);
            }
            (Job::Limit { cgroup, .. }, Err(failure)) => {
                self.limiting.remove(&cgroup);
                if let Some(claim) = self.claims.get_mut(&cgroup) {
                    claim.is_known = false;
                }
                if self.retries.failed(now, &cgroup, failure.text()) {
                    warn!(cgroup, "{}; will try again", failure.text());
                }
            }
        }
        if self.reclaiming.is_empty() && self.limiting.is_empty() {
            self.busy.end(now);
        }
    }

    /// A cgroup was made, maybe in the place of another: what failed there may succeed. Claims
    /// are told by the cgroup's number, for one may be announced twice.
    pub(super) fn forget(&mut self, cgroup: &str) {
        self.retries.forget(cgroup);
        self.refused.forget(cgroup);
    }
}

/// Anonymous pages a second that come back: the container lacks guest memory.
const NEEDY: f64 = 10.0;
