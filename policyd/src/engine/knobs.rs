// SPDX-License-Identifier: GPL-2.0-only

//! Decides on guest memory: limits, proportional reclaim and offload. The results are jobs.

use super::{
    Failure, Job, Time, busy::Busy, limiter::Limiter, reclaimer::Reclaimer, round::Round,
    sample::Machine, shortage::Shortage,
};
use crate::config::Config;
use std::collections::VecDeque;
use tracing::info;

/// Decisions about guest memory.
#[derive(Debug, Default)]
pub(super) struct Knobs {
    pub(super) shortage: Shortage,
    pub(super) limiter: Limiter,
    pub(super) reclaimer: Reclaimer,
    /// Jobs that have not begun yet.
    waiting: VecDeque<Job>,
    /// Measures how long jobs run.
    busy: Busy,
}

impl Knobs {
    /// Returns the next job.
    pub(super) fn next(&mut self) -> Option<Job> {
        self.waiting.pop_front()
    }

    /// Handles a measurement of the machine.
    pub(super) fn observe(&mut self, now: Time, machine: &Machine) {
        let own = self.busy.take(now);
        self.shortage.observe(now, machine, own);
    }

    /// Returns whether memory is so short that it has to be measured more often.
    pub(super) fn is_tight(&self, config: &Config) -> bool {
        self.shortage.bytes(config) > 0
    }

    /// Reclaims in proportion while memory is short.
    pub(super) fn reclaim(&mut self, round: &Round<'_>) {
        self.shortage.set_cache(round.cache());
        let shortage = self.shortage.bytes(round.matches.config);
        let jobs = self.reclaimer.reclaim(round, shortage);
        for job in &jobs {
            if let Job::Reclaim { cgroup, bytes, .. } = job {
                let pressure = self.shortage.pressure().unwrap_or(0.0);
                info!(cgroup, bytes, pressure, "memory is short: reclaiming");
            }
        }
        self.begin(round.now, jobs);
    }

    /// Offloads cold pages.
    pub(super) fn offload(&mut self, round: &Round<'_>) {
        let jobs = self.reclaimer.offload(round);
        self.begin(round.now, jobs);
    }

    /// Decides limits, and adds jobs for those that changed.
    pub(super) fn limit(&mut self, round: &Round<'_>) {
        let jobs = self.limiter.limit(round);
        self.begin(round.now, jobs);
    }

    fn begin(&mut self, now: Time, jobs: Vec<Job>) {
        if !jobs.is_empty() {
            self.busy.begin(now);
        }
        self.waiting.extend(jobs);
    }

    /// Handles the end of a job.
    pub(super) fn ended(&mut self, now: Time, job: Job, result: Result<u64, Failure>) {
        match job {
            Job::Reclaim {
                cgroup,
                bytes,
                files_only,
            } => {
                let asked = (bytes, files_only);
                self.reclaimer.ended(now, cgroup, asked, result);
            }
            Job::Limit {
                cgroup, id, limits, ..
            } => {
                let is_gone = result == Err(Failure::Vanished);
                self.limiter.ended(now, &cgroup, (id, limits), result);
                if is_gone {
                    self.forget(&cgroup);
                }
            }
        }
        if self.reclaimer.is_idle() && self.limiter.is_idle() {
            self.busy.end(now);
        }
    }

    /// Forgets failures of a cgroup, because it was created again and may succeed.
    pub(super) fn forget(&mut self, cgroup: &str) {
        self.limiter.forget(cgroup);
        self.reclaimer.forget(cgroup);
    }
}
