// SPDX-License-Identifier: GPL-2.0-only

//! Writes limits to cgroups in such a way that they can be undone.
//!
//! The file of a limit is written only if a job sets the limit, or an earlier job did. Before each
//! write, the journal notes the original value and the value that will be written. If a file has
//! another value than the one written last, something else has set that value (systemd, a container
//! runtime, an administrator); such a file is neither set nor restored. The daemon restores the
//! other files when it ends. After a crash, the next daemon does so, or `policyd restore`.

mod journal;

use crate::engine::{Failure, Job, Limits};
use journal::{Journal, WrittenFile, WrittenFiles};
use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tracing::{info, warn};

/// The files of limits in the order in which they are written. `memory.high` comes first, so that
/// the kernel reclaims and `memory.max` does not have to kill.
const FILES: [&str; 3] = ["memory.high", "memory.max", "memory.low"];

/// Writes to the cgroups below a root.
#[derive(Debug)]
pub struct CgroupWriter {
    root: PathBuf,
    /// Held while limits are written, so that jobs do not overlap.
    journal: Arc<Mutex<Journal>>,
    /// Set when no more limits may be set.
    retired: AtomicBool,
}

/// A write that a job does to a file.
struct FileWrite {
    file: &'static str,
    value: String,
    /// The value is the original one, so that nothing is left to undo.
    undoes: bool,
}

impl CgroupWriter {
    /// Creates a writer for the cgroups below `root`. `journal` is the file that keeps the previous
    /// values. Those that a crashed daemon left there are put back first.
    pub fn new(root: &Path, journal: Option<&Path>) -> Self {
        let writer = Self {
            root: root.into(),
            journal: Arc::new(Mutex::new(Journal::open(journal, root))),
            retired: AtomicBool::new(false),
        };
        writer.restore();
        writer
    }

    /// Returns a writer for another root, with the same journal: limits below the old root that
    /// could not be undone stay noted.
    pub fn at(&self, root: &Path) -> Self {
        Self {
            root: root.into(),
            journal: Arc::clone(&self.journal),
            retired: AtomicBool::new(false),
        }
    }

    /// Refuses limits from now on, because a job that runs late would otherwise set limits after
    /// all limits have been undone.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    /// Performs a job. This takes as long as the kernel needs to reclaim. Returns the number of
    /// reclaimed bytes if the job asks for reclaim.
    pub fn perform(&self, job: &Job) -> Result<u64, Failure> {
        match job {
            Job::Limit {
                cgroup,
                id,
                limits,
                take_over,
            } => self.limit(cgroup, *id, limits, *take_over).map(|()| 0),
            Job::Reclaim {
                cgroup,
                bytes,
                files_only,
            } => self.reclaim(cgroup, *bytes, *files_only),
        }
    }

    /// Restores each file whose value is the one that policyd wrote.
    pub fn restore(&self) {
        let mut journal = self.journal();
        let all = journal.take();
        put_back_all(&mut journal, all);
    }

    /// Tries again to restore files that could not be restored. Returns whether all are restored
    /// now.
    pub fn restore_owed(&self) -> bool {
        let mut journal = self.journal();
        let owed = journal.take_owed();
        if !owed.is_empty() {
            put_back_all(&mut journal, owed);
        }
        !journal.owes()
    }

    fn limit(
        &self,
        cgroup: &str,
        id: u64,
        limits: &Limits,
        take_over: bool,
    ) -> Result<(), Failure> {
        let directory = self.directory(cgroup);
        let directory = directory.and_then(|directory| living(&directory, id));
        let directory = directory.map_err(|error| missed(&error))?;
        let mut journal = self.journal();
        if self.retired.load(Ordering::SeqCst) {
            return Err(Failure::Vanished);
        }
        journal.settle(&directory);
        let (mut writes, mut result) = (Vec::new(), Ok(()));
        for (file, limit) in FILES.into_iter().zip([limits.high, limits.max, limits.low]) {
            match plan(&mut journal, (&directory, id), file, limit, take_over) {
                Ok(file_write) => writes.extend(file_write),
                Err(error) => result = Err(refused(file, &error)),
            }
        }
        // The journal is written before the files, so that a crash in between loses no original
        // value.
        let noted = journal.write();
        for file_write in writes {
            if noted.is_ok() {
                let done = write(&directory, file_write.file, &file_write.value);
                result = result.and(done.map_err(|error| refused(file_write.file, &error)));
            }
            file_write.settle(&mut journal, &directory, id);
        }
        noted
            .and_then(|()| journal.write())
            .map_err(|error| refused("the journal of limits", &error))?;
        result
    }

    fn reclaim(&self, cgroup: &str, bytes: u64, files_only: bool) -> Result<u64, Failure> {
        const FILE: &str = "memory.reclaim";
        let how = if files_only { " swappiness=0" } else { "" };
        let directory = self.directory(cgroup).map_err(|error| missed(&error))?;
        fs::symlink_metadata(&directory).map_err(|error| missed(&error))?;
        let current = || -> Option<u64> { read(&directory, "memory.current").ok()?.parse().ok() };
        let before = current();
        match write(&directory, FILE, &format!("{bytes}{how}")) {
            Ok(()) => Ok(bytes),
            // The kernel reclaimed less than it was asked for.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let given = before.zip(current());
                let given = given.map_or(0, |(before, now)| before.saturating_sub(now));
                Ok(given.min(bytes))
            }
            Err(error) => Err(refused(FILE, &error)),
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

impl FileWrite {
    /// Notes the result of the write, which is read back from the file: the kernel rounds values,
    /// and may refuse them.
    fn settle(&self, journal: &mut Journal, directory: &Path, id: u64) {
        let note = journal.note(directory, id, self.file).cloned();
        let (Some(mut note), Ok(now)) = (note, read(directory, self.file)) else {
            // While the file cannot be read, both values stay noted.
            return;
        };
        if now == note.before && (self.undoes || now != self.value) {
            journal.forget(directory, self.file);
        } else if note.is_ours(&now) {
            note.wrote = vec![now];
            journal.remember(directory, id, self.file, note);
        }
    }
}

/// Returns the write that a file needs, if any, after noting it in the journal.
fn plan(
    journal: &mut Journal,
    (directory, id): (&Path, u64),
    file: &'static str,
    limit: Option<u64>,
    take_over: bool,
) -> io::Result<Option<FileWrite>> {
    let mut note = journal.note(directory, id, file).cloned();
    if note.is_none() && limit.is_none() {
        return Ok(None);
    }
    let now = read(directory, file)?;
    let ours = note.as_ref().is_none_or(|note| note.is_ours(&now));
    let Some(limit) = limit else {
        if !ours {
            info!(cgroup = %directory.display(), file, now, "changed by others: not restored");
            journal.forget(directory, file);
            return Ok(None);
        }
        return Ok(note.map(|note| FileWrite {
            file,
            value: note.before,
            undoes: true,
        }));
    };
    if !ours && take_over {
        journal.forget(directory, file);
        note = None;
    }
    let value = limit.to_string();
    if (!ours && !take_over) || now == value {
        return Ok(None);
    }
    let wrote = note.as_ref().map(|_| now.clone()).into_iter();
    let note = WrittenFile {
        before: note.map_or(now, |note| note.before),
        wrote: wrote.chain([value.clone()]).collect(),
    };
    journal.remember(directory, id, file, note);
    Ok(Some(FileWrite {
        file,
        value,
        undoes: false,
    }))
}

/// Restores the noted files. Those that cannot be restored stay in the journal as owed.
fn put_back_all(journal: &mut Journal, all: BTreeMap<PathBuf, WrittenFiles>) {
    for (directory, notes) in all {
        let cgroup = directory.display();
        match put_back(&directory, &notes) {
            Ok(()) => info!(%cgroup, "guest memory limits are restored"),
            // The cgroup is gone, and its limits with it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                warn!(%cgroup, "cannot restore guest memory limits: {error}");
                journal.owe(directory, notes);
            }
        }
    }
    if let Err(error) = journal.write() {
        warn!("cannot write the journal of limits: {error}");
    }
}

fn put_back(directory: &Path, notes: &WrittenFiles) -> io::Result<()> {
    let directory = living(directory, notes.id)?;
    let mut result = Ok(());
    for (file, note) in &notes.files {
        result = result.and(match read(&directory, file) {
            Ok(now) if note.is_ours(&now) => write(&directory, file, &note.before),
            Ok(now) => {
                info!(cgroup = %directory.display(), file, now, "changed by others: not restored");
                Ok(())
            }
            Err(error) => Err(error),
        });
    }
    result
}

/// Converts the error of a cgroup that could not be reached.
fn missed(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => Failure::Vanished,
        _ => Failure::Other(error.to_string()),
    }
}

/// Converts the error of a file that could not be read or written in an existing cgroup.
fn refused(file: &str, error: &io::Error) -> Failure {
    let why = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            " (the cgroup belongs to another user: root needs CAP_DAC_OVERRIDE to write there)"
        }
        io::ErrorKind::NotFound => {
            " (the memory controller is not enabled there, or the kernel is too old)"
        }
        io::ErrorKind::InvalidInput => " (this kernel does not accept the value)",
        _ => "",
    };
    Failure::Other(format!("{file}: {error}{why}"))
}

/// Writes to a file that must exist: a cgroup has all its files from the beginning.
fn write(directory: &Path, file: &str, value: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .truncate(true)
        .open(directory.join(file))?;
    file.write_all(value.as_bytes())
}

fn read(directory: &Path, file: &str) -> io::Result<String> {
    Ok(fs::read_to_string(directory.join(file))?.trim().to_owned())
}

/// Returns the directory if it still belongs to the cgroup with this id, and not to a later one of
/// the same name.
fn living(directory: &Path, id: u64) -> io::Result<PathBuf> {
    if fs::symlink_metadata(directory)?.ino() != id {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(directory.into())
}

#[cfg(test)]
mod tests;
