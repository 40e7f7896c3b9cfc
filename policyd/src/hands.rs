// SPDX-License-Identifier: GPL-2.0

//! Writing to cgroups, so that everything can be undone.
//!
//! Before a limit is set, what was there before is written to a journal. At its end the daemon
//! puts everything back; after a crash the next one does, or `policyd restore`.

mod journal;

use crate::engine::{Failure, Job, Limits};
use journal::{Before, Journal};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tracing::{info, warn};

/// A container that gave one part in so many of what it was asked for gave something.
const GOOD: u64 = 4;

/// Writes to the cgroups below a root.
#[derive(Debug)]
pub struct Hands {
    root: PathBuf,
    /// Held while limits are written: one at a time.
    journal: Mutex<Journal>,
}

impl Hands {
    /// Hands for a cgroup root. `journal` is where to keep what was before; what a daemon that
    /// crashed left there is put back first.
    pub fn new(root: &Path, journal: Option<&Path>) -> Self {
        let hands = Self {
            root: root.into(),
            journal: Mutex::new(Journal::open(journal)),
        };
        hands.restore();
        hands
    }

    /// The same hands at another root; nothing of the old one may be left to undo.
    pub fn at(&self, root: &Path) -> Self {
        Self {
            root: root.into(),
            journal: Mutex::new(self.journal().like()),
        }
    }

    /// Does a job; takes as long as the kernel needs to reclaim.
    pub fn perform(&self, job: &Job) -> Result<(), Failure> {
        match job {
            Job::Limit { cgroup, id, limits } => self.limit(cgroup, *id, limits),
            Job::Reclaim {
                cgroup,
                bytes,
                files_only,
            } => self.reclaim(cgroup, *bytes, *files_only),
        }
        .map_err(|error| Failure::Other(error.to_string()))
    }

    /// Puts everything back as it was.
    pub fn restore(&self) {
        let mut journal = self.journal();
        for (cgroup, before) in journal.take() {
            match self.put_back(&cgroup, &before) {
                Ok(()) => info!(cgroup, "guest memory limits are as they were"),
                // It is gone, and so are its limits.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    warn!(cgroup, "cannot put back guest memory limits: {error}");
                    journal.remember(&cgroup, before);
                }
            }
        }
        if let Err(error) = journal.write() {
            warn!("cannot write the journal of limits: {error}");
        }
    }

    fn put_back(&self, cgroup: &str, before: &Before) -> io::Result<()> {
        let directory = self.living(cgroup, before.id)?;
        for (name, value) in [
            ("memory.max", &before.max),
            ("memory.high", &before.high),
            ("memory.low", &before.low),
        ] {
            fs::write(directory.join(name), value)?;
        }
        Ok(())
    }

    fn limit(&self, cgroup: &str, id: u64, limits: &Limits) -> io::Result<()> {
        let directory = self.living(cgroup, id)?;
        let read = |name: &str| {
            fs::read_to_string(directory.join(name)).map(|text| text.trim().to_owned())
        };
        let mut journal = self.journal();
        let before = match journal.before(cgroup).filter(|before| before.id == id) {
            Some(before) => before.clone(),
            None => Before {
                id,
                low: read("memory.low")?,
                high: read("memory.high")?,
                max: read("memory.max")?,
            },
        };
        journal.remember(cgroup, before.clone());
        // First the note, then the deed: a crash in between does no harm.
        journal.write()?;
        let wanted = |limit: Option<u64>, before: &String| {
            limit.map_or_else(|| before.clone(), |bytes| bytes.to_string())
        };
        for (name, value) in [
            ("memory.max", wanted(limits.max, &before.max)),
            ("memory.high", wanted(limits.high, &before.high)),
            ("memory.low", wanted(limits.low, &before.low)),
        ] {
            if read(name)? != value {
                fs::write(directory.join(name), value)?;
            }
        }
        if *limits == Limits::default() {
            journal.forget(cgroup);
            journal.write()?;
        }
        Ok(())
    }

    fn reclaim(&self, cgroup: &str, bytes: u64, files_only: bool) -> io::Result<()> {
        let how = if files_only { " swappiness=0" } else { "" };
        let directory = self.directory(cgroup)?;
        let current = || -> Option<u64> {
            let text = fs::read_to_string(directory.join("memory.current")).ok()?;
            text.trim().parse().ok()
        };
        let before = current();
        let asked = fs::write(directory.join("memory.reclaim"), format!("{bytes}{how}"));
        // The kernel refuses when it found less than all: what is still being written to swap
        // does not count. Who gave a good part may be asked again.
        let gave = before.zip(current());
        let gave = gave.map_or(0, |(before, now)| before.saturating_sub(now));
        match asked {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && gave >= bytes / GOOD => {
                Ok(())
            }
            asked => asked,
        }
    }

    /// The directory of a cgroup that must be this one, not another of its name.
    fn living(&self, cgroup: &str, id: u64) -> io::Result<PathBuf> {
        let directory = self.directory(cgroup)?;
        if fs::symlink_metadata(&directory)?.ino() != id {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(directory)
    }

    fn directory(&self, cgroup: &str) -> io::Result<PathBuf> {
        let mut parts = cgroup.split('/');
        if !cgroup.starts_with('/') || parts.any(|part| part == "..") || cgroup.len() < 2 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(self.root.join(cgroup.trim_start_matches('/')))
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
