// SPDX-License-Identifier: GPL-2.0-only

//! Samples a run in a separate thread, so that curves have no gaps during changes.

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
    /// Signalled with every sample, and when the thread must end.
    pub(crate) fresh: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) recording: Recording,
    /// Whether the host module is loaded.
    pub(crate) host: bool,
    /// Loads that the sampler does not know yet. Their tracks exist already.
    pub(crate) joining: Vec<ActiveLoad>,
    pub(crate) stop: bool,
    /// Whether the sampler has ended.
    ended: bool,
}

/// The observer of a recording.
pub(crate) trait Observer: Send {
    /// Called after each sample.
    fn sample(&mut self, recording: &Recording);
}

/// An observer that does nothing.
#[derive(Debug)]
pub(crate) struct NoObserver;

impl Observer for NoObserver {
    fn sample(&mut self, _: &Recording) {}
}

impl Recorder {
    /// Records the host's cache and the loads that will be added.
    pub(crate) fn start(host: &Machine, observer: Box<dyn Observer>) -> Result<Self> {
        let start = Instant::now();
        let shared = Arc::new(Shared::default());
        let sampler = Sampler {
            host: host.clone(),
            loads: Vec::new(),
            shared: Arc::clone(&shared),
            start,
            observer,
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

    /// Adds the loads of a VM.
    pub(crate) fn join(&self, loads: Vec<ActiveLoad>) {
        let mut state = self.shared.lock();
        add_tracks(&mut state.recording, &loads);
        state.joining.extend(loads);
    }

    /// Begins a phase, which ends the previous one.
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

    /// Records the description of a change.
    pub(crate) fn change(&self, text: impl Into<String>) {
        let change = Change {
            at: self.now(),
            text: text.into(),
        };
        self.shared.lock().recording.changes.push(change);
    }

    /// Records that the host module is loaded.
    pub(crate) fn host_is_loaded(&self) {
        self.shared.lock().host = true;
    }

    /// Records for some time.
    pub(crate) fn record(&mut self, seconds: f64) -> Result<()> {
        let until = self.now() + seconds;
        self.record_until(seconds + 60.0, |recording| recording.now >= until)
            .map(drop)
    }

    /// Records until `seen` returns `true`, at most `limit` seconds. Returns how long that took, or
    /// `None` if it did not happen.
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

    /// Returns the bytes that all loads have read so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        let state = self.shared.lock();
        let tracks = state.recording.containers.iter();
        let work = tracks.flat_map(|track| &track.work);
        work.map(|work| work.interval.bytes_read).sum()
    }

    /// Ends the recording.
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

    /// Returns the seconds since its start.
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
