// SPDX-License-Identifier: GPL-2.0-only

//! Journal of the original values of limits, in a file that survives a crash of policyd.

use super::FILES;
use crate::engine::is_rounded;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};
use tracing::warn;

/// A file that policyd wrote to. Values are in the kernel's notation.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct WrittenFile {
    /// The original value.
    pub(super) before: String,
    /// The value that policyd wrote last. While a write is under way there are two, because a crash
    /// may leave either. Without a value, it is not known what was written.
    pub(super) wrote: Vec<String>,
}

/// The files of a cgroup that policyd wrote to.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct WrittenFiles {
    /// The cgroup's id, so that a later cgroup of the same name is left alone.
    pub(super) id: u64,
    /// The notes by names of files.
    pub(super) files: BTreeMap<String, WrittenFile>,
}

/// An entry of the journal's file, keyed by the directory of a cgroup.
#[derive(Deserialize)]
#[serde(untagged)]
enum Saved {
    WrittenFiles(WrittenFiles),
    /// Format of version 0.1.0: all three files together, keyed by the path below the root.
    Older {
        id: u64,
        low: String,
        high: String,
        max: String,
    },
}

/// The notes of all cgroups, and the file that holds them.
#[derive(Debug, Default)]
pub(super) struct Journal {
    path: Option<PathBuf>,
    entries: BTreeMap<PathBuf, WrittenFiles>,
    /// Cgroups whose files could not be restored and that no job has set since.
    owed: BTreeSet<PathBuf>,
    /// Number of writes since the last search for entries of removed cgroups.
    writes: usize,
}

impl WrittenFile {
    /// Returns whether a file with this value was changed by policyd alone.
    pub(super) fn is_ours(&self, now: &str) -> bool {
        let made = |wrote: &String| match (bytes(wrote), bytes(now)) {
            (Some(wrote), Some(now)) => wrote == now || is_rounded(wrote, now),
            _ => wrote == now,
        };
        self.wrote.is_empty() || self.wrote.iter().any(made)
    }
}

impl Journal {
    /// Reads the file. A file that cannot be parsed is reported and ignored. `root` is the cgroup
    /// root that paths of older entries are relative to.
    pub(super) fn open(path: Option<&Path>, root: &Path) -> Self {
        let mut journal = Self {
            path: path.map(Into::into),
            ..Self::default()
        };
        let Some(path) = path else { return journal };
        match fs::read(path) {
            Ok(text) => match serde_json::from_slice::<BTreeMap<PathBuf, Saved>>(&text) {
                Ok(saved) => {
                    let saved = saved.into_iter();
                    journal.entries = saved.map(|(key, saved)| saved.notes(key, root)).collect();
                }
                Err(error) => warn!("cannot parse {}: {error}", path.display()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => warn!("cannot read {}: {error}", path.display()),
        }
        journal
    }

    /// Returns the note on a file of this cgroup.
    pub(super) fn note(&self, directory: &Path, id: u64, file: &str) -> Option<&WrittenFile> {
        let notes = self.entries.get(directory).filter(|notes| notes.id == id);
        notes?.files.get(file)
    }

    /// Notes a file. Notes of another cgroup that had this directory before are dropped.
    pub(super) fn remember(&mut self, directory: &Path, id: u64, file: &str, note: WrittenFile) {
        let entry = self.entries.entry(directory.into());
        let notes = entry.or_insert_with(|| WrittenFiles {
            id,
            files: BTreeMap::new(),
        });
        if notes.id != id {
            notes.id = id;
            notes.files.clear();
        }
        notes.files.insert(file.into(), note);
    }

    /// Forgets a file.
    pub(super) fn forget(&mut self, directory: &Path, file: &str) {
        if let Some(notes) = self.entries.get_mut(directory) {
            notes.files.remove(file);
            if notes.files.is_empty() {
                self.entries.remove(directory);
            }
        }
    }

    /// Removes and returns all notes.
    pub(super) fn take(&mut self) -> BTreeMap<PathBuf, WrittenFiles> {
        self.owed.clear();
        std::mem::take(&mut self.entries)
    }

    /// Removes and returns the notes of files that could not be restored.
    pub(super) fn take_owed(&mut self) -> BTreeMap<PathBuf, WrittenFiles> {
        let owed = std::mem::take(&mut self.owed).into_iter();
        owed.filter_map(|directory| self.entries.remove_entry(&directory))
            .collect()
    }

    /// Adds the notes of files that could not be restored.
    pub(super) fn owe(&mut self, directory: PathBuf, notes: WrittenFiles) {
        self.entries.insert(directory.clone(), notes);
        self.owed.insert(directory);
    }

    /// Notes that a job sets files of a cgroup again, so that they are no longer owed.
    pub(super) fn settle(&mut self, directory: &Path) {
        self.owed.remove(directory);
    }

    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Writes the file atomically. Entries of removed cgroups are dropped. They are searched for
    /// after as many writes as there are entries, which is one entry per write on average.
    pub(super) fn write(&mut self) -> io::Result<()> {
        self.writes += 1;
        if self.writes >= self.entries.len() {
            self.writes = 0;
            self.entries
                .retain(|directory, notes| !is_gone(directory, notes.id));
        }
        let Some(path) = &self.path else {
            return Ok(());
        };
        if self.entries.is_empty() {
            return match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let text = serde_json::to_vec(&self.entries)?;
        let new = path.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(new, path)
    }
}

/// Parses a limit in the kernel's notation, in which `max` becomes `u64::MAX`.
fn bytes(text: &str) -> Option<u64> {
    match text {
        "max" => Some(u64::MAX),
        text => text.parse().ok(),
    }
}

/// Returns whether the directory is gone, or belongs to another cgroup by now.
fn is_gone(directory: &Path, id: u64) -> bool {
    match fs::symlink_metadata(directory) {
        Ok(found) => found.ino() != id,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

impl Saved {
    /// Returns the directory of a cgroup and its notes.
    fn notes(self, key: PathBuf, root: &Path) -> (PathBuf, WrittenFiles) {
        match self {
            Self::WrittenFiles(mut notes) => {
                notes.files.retain(|file, _| FILES.contains(&file.as_str()));
                (key, notes)
            }
            Self::Older { id, low, high, max } => {
                let note = |before| WrittenFile {
                    before,
                    wrote: Vec::new(),
                };
                let values = [high, max, low].map(note);
                let files = FILES.map(String::from).into_iter().zip(values).collect();
                let key = root.join(key.strip_prefix("/").unwrap_or(&key));
                (key, WrittenFiles { id, files })
            }
        }
    }
}
