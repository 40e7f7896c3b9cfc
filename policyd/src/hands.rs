// SPDX-License-Identifier: GPL-2.0

//! Writing to cgroups, so that everything can be undone.
//!
//! A file of a limit is written only if a job sets it, or an earlier one did. Before the first
//! write to it, what it says is written to a journal, together with what it is going to say; and
//! again before each further write. A file that says something else than what was written last
//! belongs to whom that is from (systemd, a container runtime, an administrator), and is neither
//! set nor put back. At its end the daemon puts the other files back; after a crash the next one
//! does, or `policyd restore`.

mod journal;

use crate::engine::{Failure, Job, Limits};
use journal::{Journal, Note, Notes};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tracing::{info, warn};

/// The files of limits, in the order in which they are written: `memory.high` makes the kernel
/// reclaim, so that `memory.max` need not kill.
const FILES: [&str; 3] = ["memory.high", "memory.max", "memory.low"];

/// A container that gave one part in so many of what it was asked for gave something.
const GOOD: u64 = 4;

/// Writes to the cgroups below a root.
#[derive(Debug)]
pub struct Hands {
    root: PathBuf,
    /// Held while limits are written: one at a time.
    journal: Arc<Mutex<Journal>>,
}

/// What a job does to a file.
struct Deed {
    file: &'static str,
    value: String,
    /// The value is what was there before: nothing is left to undo.
    undoes: bool,
}

impl Hands {
    /// Hands for a cgroup root. `journal` is where to keep what was before; what a daemon that
    /// crashed left there is put back first.
    pub fn new(root: &Path, journal: Option<&Path>) -> Self {
        let hands = Self {
            root: root.into(),
            journal: Arc::new(Mutex::new(Journal::open(journal, root))),
        };
        hands.restore();
        hands
    }

    /// The same hands at another root. What could not be undone below the old one stays noted.
    pub fn at(&self, root: &Path) -> Self {
        Self {
            root: root.into(),
            journal: Arc::clone(&self.journal),
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

    /// Puts back every file that says what policyd wrote.
    pub fn restore(&self) {
        let mut journal = self.journal();
        for (directory, notes) in journal.take() {
            let cgroup = directory.display();
            match put_back(&directory, &notes) {
                Ok(()) => info!(%cgroup, "guest memory limits are as they were"),
                // The cgroup is gone, and its limits with it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    warn!(%cgroup, "cannot put back guest memory limits: {error}");
                    for (file, note) in notes.files {
                        journal.remember(&directory, notes.id, &file, note);
                    }
                }
            }
        }
        if let Err(error) = journal.write() {
            warn!("cannot write the journal of limits: {error}");
        }
    }

    fn limit(&self, cgroup: &str, id: u64, limits: &Limits) -> io::Result<()> {
        let directory = living(&self.directory(cgroup)?, id)?;
        let mut journal = self.journal();
        let (mut deeds, mut result) = (Vec::new(), Ok(()));
        for (file, limit) in FILES.into_iter().zip([limits.high, limits.max, limits.low]) {
            match plan(&mut journal, &directory, id, file, limit) {
                Ok(deed) => deeds.extend(deed),
                Err(error) => result = Err(error),
            }
        }
        // First the note, then the deed: a crash in between does no harm.
        let noted = journal.write();
        for deed in deeds {
            if noted.is_ok() {
                result = result.and(deed.perform(&directory));
            }
            deed.settle(&mut journal, &directory, id);
        }
        noted?;
        journal.write()?;
        result
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

impl Deed {
    fn perform(&self, directory: &Path) -> io::Result<()> {
        fs::write(directory.join(self.file), &self.value)
    }

    /// Notes how it went, by what the file says now: the kernel rounds, and may refuse.
    fn settle(&self, journal: &mut Journal, directory: &Path, id: u64) {
        let note = journal.note(directory, id, self.file).cloned();
        let (Some(mut note), Ok(now)) = (note, read(directory, self.file)) else {
            // While the file cannot be read, both values stay noted.
            return;
        };
        if now == note.before && (self.undoes || now != self.value) {
            journal.forget(directory, self.file);
        } else if note.is_ours(&now) || is_rounded(&self.value, &now) {
            note.wrote = vec![now];
            journal.remember(directory, id, self.file, note);
        }
    }
}

/// Whether the kernel made this of a value: it counts in whole pages.
fn is_rounded(value: &str, now: &str) -> bool {
    const LARGEST_PAGE: u64 = 64 << 10;
    match (value.parse::<u64>(), now.parse::<u64>()) {
        (Ok(value), Ok(now)) => value.checked_sub(now).is_some_and(|cut| cut < LARGEST_PAGE),
        // More than the kernel can count is no limit.
        (Ok(value), Err(_)) => now == "max" && i64::try_from(value).is_err(),
        _ => false,
    }
}

/// What is to be done to a file, if anything, noted in the journal.
fn plan(
    journal: &mut Journal,
    directory: &Path,
    id: u64,
    file: &'static str,
    limit: Option<u64>,
) -> io::Result<Option<Deed>> {
    let note = journal.note(directory, id, file).cloned();
    if note.is_none() && limit.is_none() {
        return Ok(None);
    }
    let now = read(directory, file)?;
    let ours = note.as_ref().is_none_or(|note| note.is_ours(&now));
    let Some(limit) = limit else {
        if !ours {
            info!(cgroup = %directory.display(), file, now, "changed by others: left as it is");
            journal.forget(directory, file);
            return Ok(None);
        }
        return Ok(note.map(|note| Deed {
            file,
            value: note.before,
            undoes: true,
        }));
    };
    let value = limit.to_string();
    if !ours || now == value {
        return Ok(None);
    }
    let wrote = note.as_ref().map(|_| now.clone()).into_iter();
    let note = Note {
        before: note.map_or(now, |note| note.before),
        wrote: wrote.chain([value.clone()]).collect(),
    };
    journal.remember(directory, id, file, note);
    Ok(Some(Deed {
        file,
        value,
        undoes: false,
    }))
}

fn put_back(directory: &Path, notes: &Notes) -> io::Result<()> {
    let directory = living(directory, notes.id)?;
    let mut result = Ok(());
    for (file, note) in &notes.files {
        result = result.and(match read(&directory, file) {
            Ok(now) if note.is_ours(&now) => fs::write(directory.join(file), &note.before),
            Ok(now) => {
                info!(cgroup = %directory.display(), file, now, "changed by others: left as it is");
                Ok(())
            }
            Err(error) => Err(error),
        });
    }
    result
}

fn read(directory: &Path, file: &str) -> io::Result<String> {
    Ok(fs::read_to_string(directory.join(file))?.trim().to_owned())
}

/// The directory of a cgroup that must be this one, not another of its name.
fn living(directory: &Path, id: u64) -> io::Result<PathBuf> {
    if fs::symlink_metadata(directory)?.ino() != id {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(directory.into())
}

#[cfg(test)]
mod tests;
