// SPDX-License-Identifier: GPL-2.0-only

//! Samples a run, in a thread of its own, so that curves have no holes while
//! something is being changed.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread::{self, JoinHandle},
    time::Instant,
};

use anyhow::{Result, anyhow};
use ddlab::Machine;

use crate::{
    recording::{Change, ContainerTrack, Phase, Recording, VmTrack},
    sampler::{INTERVAL, Sampler},
    site::ActiveLoad,
};

/// A recording under way.
#[derive(Debug)]
pub(crate) struct Recorder {
    shared: Arc<Shared>,
    start: Instant,
    sampler: Option<JoinHandle<Result<()>>>,
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Signalled with every sample, and when asked to stop.
    pub(crate) fresh: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) recording: Recording,
    /// Whether the host module is loaded.
    pub(crate) host: bool,
    /// Loads the sampler does not know yet; their tracks are there already.
    pub(crate) joining: Vec<ActiveLoad>,
    pub(crate) stop: bool,
    /// The sampler has ended.
    ended: bool,
}

/// Who looks on while it is recorded.
pub(crate) trait Audience: Send {
    /// A sample was added.
    fn sample(&mut self, recording: &Recording);
}

/// There is no audience.
#[derive(Debug)]
pub(crate) struct Nobody;

impl Audience for Nobody {
    fn sample(&mut self, _: &Recording) {}
}

impl Recorder {
    /// Records the host's cache and the loads that will join.
    pub(crate) fn start(host: &Machine, audience: Box<dyn Audience>) -> Result<Self> {
        let start = Instant::now();
        let shared = Arc::new(Shared::default());
        let sampler = Sampler {
            host: host.clone(),
            loads: Vec::new(),
            shared: Arc::clone(&shared),
            start,
            audience,
        };
        let theirs = Arc::clone(&shared);
        let sampler = thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || {
                let done = sampler.run();
                theirs.lock().ended = true;
                theirs.fresh.notify_all();
                done
            })?;
        Ok(Self {
            shared,
            start,
            sampler: Some(sampler),
        })
    }

    /// Takes in the loads of a VM.
    pub(crate) fn join(&self, loads: Vec<ActiveLoad>) {
        let mut state = self.shared.lock();
        add_tracks(&mut state.recording, &loads);
        state.joining.extend(loads);
    }

    /// Begins a stretch; the one before ends.
    pub(crate) fn phase(&self, name: &str, weighted: bool) {
        let now = self.now();
        let mut state = self.shared.lock();
        if let Some(last) = state.recording.phases.last_mut() {
            last.to = now;
        }
        state.recording.phases.push(Phase {
            name: name.to_owned(),
            weighted,
            from: now,
            to: now,
        });
    }

    /// Notes that something is being changed.
    pub(crate) fn change(&self, text: impl Into<String>) {
        let change = Change {
            at: self.now(),
            text: text.into(),
        };
        self.shared.lock().recording.changes.push(change);
    }

    /// The host module is there from now on.
    pub(crate) fn host_is_loaded(&self) {
        self.shared.lock().host = true;
    }

    /// Records for a while.
    pub(crate) fn record(&mut self, seconds: f64) -> Result<()> {
        let until = self.now() + seconds;
        self.record_until(seconds + 60.0, |recording| recording.now >= until)
            .map(drop)
    }

    /// Records until something is seen, at most `limit` seconds; returns how
    /// long that took, or nothing if it was not seen.
    pub(crate) fn record_until(
        &mut self,
        limit: f64,
        mut seen: impl FnMut(&Recording) -> bool,
    ) -> Result<Option<f64>> {
        let start = self.now();
        let mut state = self.shared.lock();
        loop {
            if seen(&state.recording) {
                return Ok(Some(state.recording.now - start));
            }
            if state.ended {
                drop(state);
                return Err(self.sampler_error());
            }
            if self.now() - start > limit {
                return Ok(None);
            }
            let waited = self.shared.fresh.wait_timeout(state, INTERVAL);
            state = waited.expect("no thread panics with this lock").0;
        }
    }

    /// Bytes all loads have read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        let state = self.shared.lock();
        let tracks = state.recording.containers.iter();
        let work = tracks.flat_map(|track| &track.work);
        work.map(|work| work.interval.bytes_read).sum()
    }

    /// Ends it.
    pub(crate) fn finish(mut self) -> Result<Recording> {
        let now = self.now();
        self.shared.stop();
        if let Some(sampler) = self.sampler.take() {
            sampler
                .join()
                .map_err(|_| anyhow!("the sampler panicked"))??;
        }
        let mut recording = std::mem::take(&mut self.shared.lock().recording);
        if let Some(last) = recording.phases.last_mut() {
            last.to = now;
        }
        Ok(recording)
    }

    /// Seconds since it began.
    pub(crate) fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn sampler_error(&mut self) -> anyhow::Error {
        let ended = self.sampler.take().map(JoinHandle::join);
        match ended {
            Some(Ok(Err(error))) => error,
            _ => anyhow!("the sampler ended"),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with this lock")
    }

    fn stop(&self) {
        self.lock().stop = true;
        self.fresh.notify_all();
    }
}

fn add_tracks(recording: &mut Recording, loads: &[ActiveLoad]) {
    for load in loads {
        if recording.vm(load.vm).is_none() {
            recording.vms.push(VmTrack {
                name: load.vm.to_owned(),
                shares: Vec::new(),
            });
        }
        recording.containers.push(ContainerTrack {
            vm: load.vm.to_owned(),
            name: load.container.to_owned(),
            about: load.about.clone(),
            shares: Vec::new(),
            counts: Vec::new(),
            work: Vec::new(),
        });
    }
}
