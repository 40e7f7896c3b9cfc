// SPDX-License-Identifier: GPL-2.0

//! What limits were before we changed them, kept where a crash does not reach it.

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};
use tracing::warn;

/// The limits of a cgroup as they were, in the kernel's words.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Before {
    /// The cgroup's number.
    pub(super) id: u64,
    pub(super) low: String,
    pub(super) high: String,
    pub(super) max: String,
}

/// A file of [`Before`] by cgroup.
#[derive(Debug, Default)]
pub(super) struct Journal {
    path: Option<PathBuf>,
    entries: BTreeMap<String, Before>,
}

impl Journal {
    /// Reads the file; what makes no sense is told and left behind.
    pub(super) fn open(path: Option<&Path>) -> Self {
        let mut journal = Self {
            path: path.map(Into::into),
            entries: BTreeMap::new(),
        };
        let Some(path) = path else { return journal };
        match fs::read(path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(entries) => journal.entries = entries,
                Err(error) => warn!("{} makes no sense: {error}", path.display()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => warn!("cannot read {}: {error}", path.display()),
        }
        journal
    }

    /// An empty journal at the same place.
    pub(super) fn like(&self) -> Self {
        Self {
            path: self.path.clone(),
            entries: BTreeMap::new(),
        }
    }

    pub(super) fn before(&self, cgroup: &str) -> Option<&Before> {
        self.entries.get(cgroup)
    }

    pub(super) fn remember(&mut self, cgroup: &str, before: Before) {
        self.entries.insert(cgroup.into(), before);
    }

    pub(super) fn forget(&mut self, cgroup: &str) {
        self.entries.remove(cgroup);
    }

    /// Takes everything out.
    pub(super) fn take(&mut self) -> BTreeMap<String, Before> {
        std::mem::take(&mut self.entries)
    }

    /// Writes the file: whole or not at all.
    pub(super) fn write(&self) -> io::Result<()> {
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
