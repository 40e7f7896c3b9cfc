// SPDX-License-Identifier: GPL-2.0-only

//! Reclaims from containers: in proportion while the VM is short of memory, and cold pages at any
//! time.

use super::{
    Failure, Job, Time,
    nest::{self, Nested},
    offload,
    reclaim::{self, ReclaimCandidate},
    retry::Retries,
    round::Round,
};
use crate::config::{Config, Container};
use std::collections::{BTreeMap, BTreeSet};
use tracing::{debug, warn};

/// Decides which containers are reclaimed from.
#[derive(Debug, Default)]
pub(super) struct Reclaimer {
    /// Containers that are being reclaimed from.
    busy: BTreeSet<String>,
    /// Containers that gave nothing, and the times from which on they may be asked again.
    resting: BTreeMap<String, Time>,
    next_offload: BTreeMap<String, Time>,
    /// Containers for which the kernel refused to reclaim.
    refused: Retries,
    /// Bytes that were reclaimed so far, while memory was short and by offload.
    pub(super) reclaimed: u64,
    pub(super) offloaded: u64,
}

/// Reclaim counts as successful if at least the `GOOD`th part of the requested bytes was reclaimed,
/// because the kernel does not count pages that are still being written to swap.
const GOOD: u64 = 4;
/// Time for which a container is left alone after it gave nothing.
const REST: Time = Time::from_secs(30);
/// The most chunks of one round.
const MAX_CHUNKS: u64 = 8;

impl Reclaimer {
    /// Returns whether no container is being reclaimed from.
    pub(super) fn is_idle(&self) -> bool {
        self.busy.is_empty()
    }

    /// Forgets failures of a cgroup that was created again.
    pub(super) fn forget(&mut self, cgroup: &str) {
        self.refused.forget(cgroup);
    }

    /// Returns jobs that reclaim `shortage` bytes from containers in proportion.
    pub(super) fn reclaim(&mut self, round: &Round<'_>, shortage: u64) -> Vec<Job> {
        self.resting.retain(|_, until| *until > round.now);
        self.refused
            .retain(|cgroup| round.cgroups.contains_key(cgroup));
        // The running jobs may be enough.
        if shortage == 0 || !self.is_idle() {
            return Vec::new();
        }
        let config = &round.matches.config.reclaim;
        let amount = shortage.min(config.chunk.saturating_mul(MAX_CHUNKS));
        reclaim::victims(self.candidates(round), amount, config.chunk)
            .into_iter()
            .map(|(cgroup, bytes)| self.begin(cgroup, bytes, false))
            .collect()
    }

    /// Returns the containers that can give memory.
    fn candidates(&self, round: &Round<'_>) -> Vec<ReclaimCandidate> {
        let machine = &round.sample.machine;
        let has_swap = machine.swap_free > round.matches.config.reclaim.chunk;
        let (nest, alone) = (nest::of(round), Nested::default());
        let candidate = |(cgroup, container): (&String, &Container)| {
            let reading = round.sample.containers.get(cgroup)?;
            let rank = container.rank();
            let inner = nest.get(cgroup.as_str()).unwrap_or(&alone);
            let is_spared = inner.no_reclaim || inner.is_above(rank);
            if !container.reclaim || is_spared || self.resting.contains_key(cgroup) {
                return None;
            }
            let own = inner.own(reading);
            let floor = inner.own_floor(container, reading);
            let stuck = if has_swap { own.stuck() } else { own.fixed() };
            Some(ReclaimCandidate {
                cgroup: cgroup.clone(),
                rank,
                weight: container.memory_weight.unwrap_or(container.weight).max(1),
                usage: own.current,
                least: floor.max(stuck).max(offload::MIN_LEFT),
            })
        };
        round.matches.iter().filter_map(candidate).collect()
    }

    /// Returns jobs that offload cold pages.
    pub(super) fn offload(&mut self, round: &Round<'_>) -> Vec<Job> {
        let config = &round.matches.config.offload;
        let (nest, alone) = (nest::of(round), Nested::default());
        self.next_offload
            .retain(|cgroup, _| round.matches.by_cgroup.contains_key(cgroup));
        let mut jobs = Vec::new();
        for (cgroup, container) in round.matches.iter() {
            let inner = nest.get(cgroup.as_str()).unwrap_or(&alone);
            let is_wanted = container.offload.unwrap_or(config.enabled) && !inner.no_offload;
            if !is_wanted || !self.may_offload(cgroup, round.now) {
                continue;
            }
            let bytes = cold_bytes(round, cgroup, container, inner).unwrap_or(0);
            if bytes > 0 {
                debug!(cgroup, bytes, "offloading cold pages");
                let next = round.now.saturating_add(config.period);
                self.next_offload.insert(cgroup.clone(), next);
                jobs.push(self.begin(cgroup.clone(), bytes, true));
            }
        }
        jobs
    }

    fn may_offload(&self, cgroup: &str, now: Time) -> bool {
        let next = self.next_offload.get(cgroup);
        next.is_none_or(|next| *next <= now)
            && !self.busy.contains(cgroup)
            && !self.resting.contains_key(cgroup)
    }

    fn begin(&mut self, cgroup: String, bytes: u64, files_only: bool) -> Job {
        self.busy.insert(cgroup.clone());
        Job::Reclaim {
            cgroup,
            bytes,
            files_only,
        }
    }

    /// Handles the end of a job that was to reclaim `bytes`.
    pub(super) fn ended(
        &mut self,
        now: Time,
        cgroup: String,
        (bytes, files_only): (u64, bool),
        result: Result<u64, Failure>,
    ) {
        self.busy.remove(&cgroup);
        match result {
            Ok(given) => {
                self.refused.forget(&cgroup);
                let sum = match files_only {
                    true => &mut self.offloaded,
                    false => &mut self.reclaimed,
                };
                *sum = sum.saturating_add(given);
                if given >= bytes / GOOD {
                    return;
                }
                // It is usual that the kernel reclaims less than it was asked for.
                debug!(cgroup, bytes, given, "gave little");
            }
            Err(Failure::Vanished) => {}
            Err(failure) => {
                if self.refused.failed(now, &cgroup, failure.text()) {
                    warn!(cgroup, "cannot reclaim: {}; will try again", failure.text());
                }
            }
        }
        self.resting.insert(cgroup, now.saturating_add(REST));
    }
}

/// Returns the bytes that a container can give without harm; `None` if too little is known of it,
/// or its target is missed.
fn cold_bytes(
    round: &Round<'_>,
    cgroup: &str,
    container: &Container,
    inner: &Nested,
) -> Option<u64> {
    let Config { offload, .. } = round.matches.config;
    let member = round.controller.member(cgroup)?;
    let rates = member.rates.as_ref().filter(|_| !member.misses_target())?;
    let own = inner.own(&member.reading);
    let least = inner.own_floor(container, &member.reading);
    Some(offload::step(offload, rates, own.current, own.file, least))
}
