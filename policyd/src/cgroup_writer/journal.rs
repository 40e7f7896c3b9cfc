// SPDX-License-Identifier: GPL-2.0-only

//! What each file of a limit said before policyd wrote to it, kept where a crash does not reach it.

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

/// A file that policyd wrote to; values are in the kernel's words.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Note {
    /// What the file said before.
    pub(super) before: String,
    /// What policyd wrote last. While a write is under way these are two values, for a crash may
    /// leave either; none means that it is not known what was written.
    pub(super) wrote: Vec<String>,
}

/// The files of a cgroup that policyd wrote to.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Notes {
    /// The cgroup's number, so that another cgroup of that name is left alone.
    pub(super) id: u64,
    /// By the file's name.
    pub(super) files: BTreeMap<String, Note>,
}

/// An entry of the journal's file, keyed by the directory of a cgroup.
#[derive(Deserialize)]
#[serde(untagged)]
enum Saved {
    Notes(Notes),
    /// What version 0.1.0 wrote: all three files at once, keyed by the path below the root.
    Older {
        id: u64,
        low: String,
        high: String,
        max: String,
    },
}

/// The notes of all cgroups, and the file they are kept in.
#[derive(Debug, Default)]
pub(super) struct Journal {
    path: Option<PathBuf>,
    entries: BTreeMap<PathBuf, Notes>,
    /// Cgroups whose files could not be put back, and that no job set since.
    owed: BTreeSet<PathBuf>,
    /// Writes since entries of cgroups that are gone were last looked for.
    writes: usize,
}

impl Note {
    /// Whether a file that says this was changed by nothing but policyd.
    pub(super) fn is_ours(&self, now: &str) -> bool {
        let made = |wrote: &String| match (bytes(wrote), bytes(now)) {
            (Some(wrote), Some(now)) => wrote == now || is_rounded(wrote, now),
            _ => wrote == now,
        };
        self.wrote.is_empty() || self.wrote.iter().any(made)
    }
}

impl Journal {
    /// Reads the file; what makes no sense is reported and left behind. `root` is where cgroups of
    /// older entries lie.
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
                Err(error) => warn!("{} makes no sense: {error}", path.display()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => warn!("cannot read {}: {error}", path.display()),
        }
        journal
    }

    /// Returns what is noted of a file of this cgroup.
    pub(super) fn note(&self, directory: &Path, id: u64, file: &str) -> Option<&Note> {
        let notes = self.entries.get(directory).filter(|notes| notes.id == id);
        notes?.files.get(file)
    }

    /// Notes a file. Notes of another cgroup that had this directory before are dropped.
    pub(super) fn remember(&mut self, directory: &Path, id: u64, file: &str, note: Note) {
        let entry = self.entries.entry(directory.into());
        let notes = entry.or_insert_with(|| Notes {
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

    /// Takes everything out.
    pub(super) fn take(&mut self) -> BTreeMap<PathBuf, Notes> {
        self.owed.clear();
        std::mem::take(&mut self.entries)
    }

    /// Takes out what is owed.
    pub(super) fn take_owed(&mut self) -> BTreeMap<PathBuf, Notes> {
        let owed = std::mem::take(&mut self.owed).into_iter();
        owed.filter_map(|directory| self.entries.remove_entry(&directory))
            .collect()
    }

    /// Puts back what could not be undone.
    pub(super) fn owe(&mut self, directory: PathBuf, notes: Notes) {
        self.entries.insert(directory.clone(), notes);
        self.owed.insert(directory);
    }

    /// A job sets files of a cgroup: what is undone is its affair again.
    pub(super) fn settle(&mut self, directory: &Path) {
        self.owed.remove(directory);
    }

    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Writes the file: whole or not at all. Entries of cgroups that are gone are dropped; they are
    /// looked for after as many writes as there are entries, so that a write looks for one.
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

/// A limit in the kernel's words; no limit is `u64::MAX`.
fn bytes(text: &str) -> Option<u64> {
    match text {
        "max" => Some(u64::MAX),
        text => text.parse().ok(),
    }
}

/// Whether there is no such directory, or it is another cgroup's by now.
fn is_gone(directory: &Path, id: u64) -> bool {
    match fs::symlink_metadata(directory) {
        Ok(found) => found.ino() != id,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

impl Saved {
    /// The directory of a cgroup and its notes.
    fn notes(self, key: PathBuf, root: &Path) -> (PathBuf, Notes) {
        match self {
            Self::Notes(mut notes) => {
                notes.files.retain(|file, _| FILES.contains(&file.as_str()));
                (key, notes)
            }
            Self::Older { id, low, high, max } => {
                let note = |before| Note {
                    before,
                    wrote: Vec::new(),
                };
                let values = [high, max, low].map(note);
                let files = FILES.map(String::from).into_iter().zip(values).collect();
                let key = root.join(key.strip_prefix("/").unwrap_or(&key));
                (key, Notes { id, files })
            }
        }
    }
}
