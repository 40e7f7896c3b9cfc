// SPDX-License-Identifier: GPL-2.0-only

//! Limits of guest memory: combines the wanted limits ([`super::memory`]) with those that policyd
//! may set ([`super::claim`]), and creates the jobs that set them.

use super::{
    Failure, Job, Time,
    character::Character,
    claim::Claim,
    memory::{Limits, Managed, Memory},
    nest::{self, Nested},
    protection::{self, Protection},
    retry::Retries,
    round::Round,
};
use crate::config::Container;
use std::collections::{BTreeMap, BTreeSet};
use tracing::{info, warn};

/// The limits of containers whose memory is managed.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    memory: Memory,
    /// Limits that may be in force. Claims are dropped when their limits are known to be undone.
    claims: BTreeMap<String, Claim>,
    /// Containers whose limits are being set. The kernel may reclaim for long, and jobs for the
    /// same container must not overtake each other.
    busy: BTreeSet<String>,
    retries: Retries,
    /// Containers whose effective protection is below their `memory.low`.
    unprotected: BTreeMap<String, Protection>,
}

/// Refaults of anonymous pages a second from which on a container lacks guest memory.
const NEEDY: f64 = 10.0;

impl Limiter {
    /// Returns the limits in force for a container.
    pub(super) fn limits(&self, cgroup: &str) -> Limits {
        let claim = self.claims.get(cgroup);
        claim.map(Claim::in_force).unwrap_or_default()
    }

    /// Returns the values of files that others changed after policyd had set them.
    pub(super) fn foreign(&self, cgroup: &str) -> Limits {
        let claim = self.claims.get(cgroup);
        claim.map(|claim| claim.foreign).unwrap_or_default()
    }

    /// Returns why the effective protection of a container is below its `memory.low`, if it is.
    pub(super) fn unprotected(&self, cgroup: &str) -> Option<&Protection> {
        self.unprotected.get(cgroup)
    }

    /// Returns whether limits may be in force that have to be undone later.
    pub(super) fn has_limits(&self) -> bool {
        !self.claims.is_empty()
    }

    /// Returns whether no limits are being set.
    pub(super) fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }

    /// Notes that the configuration was read again.
    pub(super) fn reload(&mut self) {
        self.claims.values_mut().for_each(Claim::reload);
    }

    /// Forgets failures of a cgroup that was created again. Claims stay, because they have the
    /// cgroup's id and a creation may be announced twice.
    pub(super) fn forget(&mut self, cgroup: &str) {
        self.retries.forget(cgroup);
    }

    /// Decides limits, and returns jobs for those that changed.
    pub(super) fn limit(&mut self, round: &Round<'_>) -> Vec<Job> {
        self.observe(round);
        let managed = self.managed(round);
        self.memory.retain(|cgroup| manages(round, cgroup));
        self.memory.decide(&round.sample.machine, &managed);
        self.retries
            .retain(|cgroup| round.cgroups.contains_key(cgroup));
        let wishes = self.wishes(round, &managed).into_iter();
        let jobs: Vec<(Job, Claim)> = wishes
            .filter_map(|(cgroup, wish)| self.job(round, cgroup, wish))
            .collect();
        let jobs = jobs.into_iter().map(|(job, claim)| {
            let cgroup = job.cgroup();
            self.busy.insert(cgroup.into());
            self.claims.insert(cgroup.into(), claim);
            job
        });
        let jobs = jobs.collect();
        self.protect(&round.sample.lows);
        jobs
    }

    /// Compares the claims with the values of the files.
    fn observe(&mut self, round: &Round<'_>) {
        self.claims
            .retain(|cgroup, claim| round.cgroups.get(cgroup) == Some(&claim.id));
        for (cgroup, claim) in &mut self.claims {
            let reading = round.sample.containers.get(cgroup);
            // While a job runs, a file may have the old value or the new one.
            if let Some(reading) = reading.filter(|_| !self.busy.contains(cgroup)) {
                claim.observe(cgroup, &reading.limits);
            }
        }
    }

    /// Returns the containers with managed memory of which enough is known.
    fn managed(&self, round: &Round<'_>) -> BTreeMap<String, Managed> {
        let nest = nest::of(round);
        let managed = |(cgroup, container): (&String, &Container)| {
            let inner = nest.get(cgroup.as_str());
            Some((cgroup.clone(), self.look(round, cgroup, container, inner)?))
        };
        let containers = round.matches.iter();
        let containers = containers.filter(|(_, container)| container.manage_memory);
        containers.filter_map(managed).collect()
    }

    /// Returns the state of a container with managed memory.
    fn look(
        &self,
        round: &Round<'_>,
        cgroup: &str,
        container: &Container,
        inner: Option<&Nested>,
    ) -> Option<Managed> {
        let member = round.controller.member(cgroup)?;
        let rates = member.rates.as_ref()?;
        let rank = container.rank();
        let needy = member.misses_target() || rates.refaults_anon > NEEDY;
        let (fixed, current) = (member.reading.fixed(), member.reading.current);
        // Page cache of nested containers is reclaimed from those.
        let inside = inner.map_or(0, |inner| inner.file);
        Some(Managed {
            rank,
            character: member.character(),
            spared: inner.is_some_and(|inner| inner.unmanaged || inner.is_above(rank)),
            settled: !self.busy.contains(cgroup) && self.foreign(cgroup).high.is_none(),
            waits: rates.memory_full.unwrap_or(0.0),
            needy: needy && member.character() == Character::Anonymous,
            current,
            fixed: fixed.saturating_add(inside).min(fixed.max(current)),
            floor: container.memory_floor.map(|floor| floor.0),
            ceiling: container.memory_ceiling.map(|ceiling| ceiling.0),
        })
    }

    /// Returns the wanted limits of containers. One that could not be read this time keeps its
    /// limits. One that left the file, or is not managed any more, gets back its original limits.
    fn wishes(
        &self,
        round: &Round<'_>,
        managed: &BTreeMap<String, Managed>,
    ) -> Vec<(String, Limits)> {
        let left = self.claims.keys().filter(|cgroup| !manages(round, cgroup));
        let left = left.map(|cgroup| (cgroup.clone(), Limits::default()));
        let wish = |cgroup: &String| {
            let claim = self.claim(round, cgroup);
            (cgroup.clone(), claim.wish(&self.memory.limits(cgroup)))
        };
        left.chain(managed.keys().map(wish)).collect()
    }

    /// Returns the claim on a cgroup's limits, or a new one.
    fn claim(&self, round: &Round<'_>, cgroup: &str) -> Claim {
        self.claims.get(cgroup).cloned().unwrap_or_else(|| {
            let reading = round.sample.containers.get(cgroup);
            let found = reading.map(|reading| reading.limits).unwrap_or_default();
            let id = round.cgroups.get(cgroup).copied().unwrap_or_default();
            Claim::new(id, found)
        })
    }

    /// Returns the job that sets limits, and the new claim, if a job is needed and may begin.
    fn job(&self, round: &Round<'_>, cgroup: String, limits: Limits) -> Option<(Job, Claim)> {
        let id = *round.cgroups.get(&cgroup)?;
        let claim = self.claim(round, &cgroup);
        if !claim.needs(&limits)
            || self.busy.contains(&cgroup)
            || !self.retries.may(round.now, &cgroup)
        {
            return None;
        }
        info!(
            cgroup,
            low = limits.low,
            high = limits.high,
            max = limits.max,
            "guest memory limits"
        );
        let job = Job::Limit {
            cgroup,
            id,
            limits,
            take_over: claim.take_over,
        };
        Some((job, claim))
    }

    /// Finds out how much the `memory.low` of containers protects, and logs where that is less.
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

    /// Handles the end of a job that sets limits of the cgroup with this id.
    pub(super) fn ended(
        &mut self,
        now: Time,
        cgroup: &str,
        (id, limits): (u64, Limits),
        result: Result<u64, Failure>,
    ) {
        self.busy.remove(cgroup);
        let claim = self.claims.get_mut(cgroup);
        match result {
            Ok(_) => {
                self.retries.forget(cgroup);
                if let Some(claim) = claim.filter(|claim| claim.id == id) {
                    (claim.set, claim.is_known, claim.take_over) = (limits, true, false);
                    if limits == Limits::default() {
                        self.claims.remove(cgroup);
                    }
                }
            }
            Err(Failure::Vanished) => {
                self.claims.remove(cgroup);
            }
            Err(failure) => {
                if let Some(claim) = claim {
                    claim.is_known = false;
                }
                if self.retries.failed(now, cgroup, failure.text()) {
                    warn!(cgroup, "{}; will try again", failure.text());
                }
            }
        }
    }
}

/// Returns whether a cgroup is a container with managed memory.
fn manages(round: &Round<'_>, cgroup: &str) -> bool {
    let container = round.matches.container(cgroup);
    container.is_some_and(|container| container.manage_memory)
}
