// SPDX-License-Identifier: GPL-2.0-only

//! The thread that samples.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use ddlab::{
    Machine,
    ddctl::{self, Vm},
};
use ddload::Line;

use crate::{
    recorder::{Observer, Shared},
    recording::{Counts, Recording, Share, Work},
    site::ActiveLoad,
};

/// Time between two samples.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// The state of the thread.
pub(crate) struct Sampler {
    pub(crate) host: Machine,
    pub(crate) loads: Vec<ActiveLoad>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) start: Instant,
    pub(crate) observer: Box<dyn Observer>,
}

impl Sampler {
    /// Samples until it must end.
    pub(crate) fn run(mut self) -> Result<()> {
        let mut next = Instant::now();
        loop {
            next = (next + INTERVAL).max(Instant::now());
            if self.stopped(next) {
                return Ok(());
            }
            self.sample()?;
        }
    }

    /// Waits until `next`, or less if the recording ends.
    fn stopped(&self, next: Instant) -> bool {
        let state = self.shared.lock();
        let wait = next.saturating_duration_since(Instant::now());
        let fresh = &self.shared.fresh;
        let waited = fresh.wait_timeout_while(state, wait, |state| !state.stop);
        waited.expect("no thread panics with this lock").0.stop
    }

    fn sample(&mut self) -> Result<()> {
        let loaded = {
            let mut state = self.shared.lock();
            self.loads.append(&mut state.joining);
            state.host
        };
        let before = self.start.elapsed().as_secs_f64();
        let vms = match loaded {
            true => Some(ddctl::vms(&self.host).context("cannot sample the host")?),
            false => None,
        };
        let after = self.start.elapsed().as_secs_f64();
        let mut work = Vec::new();
        for load in &mut self.loads {
            // The load's own clock began at its first request.
            let start = load
                .start
                .saturating_duration_since(self.start)
                .as_secs_f64()
                - self
                    .start
                    .saturating_duration_since(load.start)
                    .as_secs_f64();
            let intervals = load.lines()?.into_iter().filter_map(|line| match line {
                Line::Interval(interval) => Some(Work {
                    at: start + interval.elapsed,
                    interval,
                }),
                Line::Ready(_) | Line::Summary(_) => None,
            });
            work.push(intervals.collect::<Vec<_>>());
        }
        let mut state = self.shared.lock();
        let recording = &mut state.recording;
        if let Some(vms) = &vms {
            add_shares(recording, (before + after) / 2.0, vms);
        }
        for (track, work) in recording.containers.iter_mut().zip(work) {
            track.work.extend(work);
        }
        recording.now = after;
        self.observer.sample(recording);
        drop(state);
        self.shared.fresh.notify_all();
        Ok(())
    }
}

fn add_shares(recording: &mut Recording, at: f64, vms: &[Vm]) {
    for vm in vms {
        let Some(name) = &vm.name else { continue };
        if let Some(track) = recording.vms.iter_mut().find(|track| track.name == *name) {
            track.shares.push(Share {
                at,
                used_pages: vm.used_pages,
                entitlement_pages: vm.entitlement_pages,
                weight: vm.weight,
            });
        }
        for pool in &vm.containers {
            let track = recording.containers.iter_mut();
            let mut own = track.filter(|track| track.vm == *name && track.name == pool.name);
            let Some(track) = own.next() else { continue };
            track.shares.push(Share {
                at,
                used_pages: pool.used_pages,
                entitlement_pages: pool.entitlement_pages,
                weight: pool.weight,
            });
            let stats = pool.stats.unwrap_or_default();
            track.counts.push(Counts {
                at,
                puts: stats.puts,
                gets: stats.gets,
                misses: stats.misses,
                evictions: stats.evictions,
                calls: stats.get_batches + stats.put_batches,
            });
        }
    }
}
