// SPDX-License-Identifier: GPL-2.0-only

//! Limits of guest memory: what is wished ([`super::memory`]), which of it is ours to set
//! ([`super::claim`]), and the jobs that set it.

use super::{
    Failure, Job, Time,
    character::Character,
    claim::Claim,
    memory::{Limits, Managed, Memory},
    nest::{self, Inner},
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
    /// Limits that may be in force, until they are known to be undone.
    claims: BTreeMap<String, Claim>,
    /// Containers whose limits are being set: the kernel may reclaim for long, and the next ones
    /// must not overtake.
    busy: BTreeSet<String>,
    retries: Retries,
    /// Containers that are protected less than their `memory.low` says.
    unprotected: BTreeMap<String, Protection>,
}

/// Anonymous pages a second that come back: the container lacks guest memory.
const NEEDY: f64 = 10.0;

impl Limiter {
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

    /// Whether limits may be in force that are to be undone some day.
    pub(super) fn has_limits(&self) -> bool {
        !self.claims.is_empty()
    }

    /// Whether no limits are being set.
    pub(super) fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }

    /// The configuration was read again.
    pub(super) fn reload(&mut self) {
        self.claims.values_mut().for_each(Claim::reload);
    }

    /// A cgroup was made, maybe in the place of another. Claims are told by the cgroup's number,
    /// for one may be announced twice.
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

    /// Takes in what the files of limits say.
    fn observe(&mut self, round: &Round<'_>) {
        self.claims
            .retain(|cgroup, claim| round.cgroups.get(cgroup) == Some(&claim.id));
        for (cgroup, claim) in &mut self.claims {
            let reading = round.sample.containers.get(cgroup);
            // While a job is under way, files may say one thing or the other.
            if let Some(reading) = reading.filter(|_| !self.busy.contains(cgroup)) {
                claim.observe(cgroup, &reading.limits);
            }
        }
    }

    /// The containers whose memory is managed and of which enough is known.
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

    /// What is known of a container whose memory is managed.
    fn look(
        &self,
        round: &Round<'_>,
        cgroup: &str,
        container: &Container,
        inner: Option<&Inner>,
    ) -> Option<Managed> {
        let member = round.controller.member(cgroup)?;
        let rates = member.rates.as_ref()?;
        let rank = container.rank();
        let needy = member.misses_target() || rates.refaults_anon > NEEDY;
        let (fixed, current) = (member.reading.fixed(), member.reading.current);
        // Cache of containers inside is theirs to give.
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

    /// The limits that containers should have. One that cannot be read for once keeps its limits;
    /// one that left the file, or is not managed any more, gets back what it had.
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

    /// The claim on a cgroup's limits, a new one if there is none.
    fn claim(&self, round: &Round<'_>, cgroup: &str) -> Claim {
        self.claims.get(cgroup).cloned().unwrap_or_else(|| {
            let reading = round.sample.containers.get(cgroup);
            let found = reading.map(|reading| reading.limits).unwrap_or_default();
            let id = round.cgroups.get(cgroup).copied().unwrap_or_default();
            Claim::new(id, found)
        })
    }

    /// The job that sets limits, and the claim on them, if one is needed and may begin.
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
            anew: claim.anew,
        };
        Some((job, claim))
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

    /// A job ended that was to set limits of the cgroup of this number.
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
                    (claim.set, claim.is_known, claim.anew) = (limits, true, false);
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

/// Whether a cgroup is a container whose memory is managed.
fn manages(round: &Round<'_>, cgroup: &str) -> bool {
    let container = round.matches.container(cgroup);
    container.is_some_and(|container| container.manage_memory)
}
