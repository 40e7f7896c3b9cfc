// SPDX-License-Identifier: GPL-2.0-only

//! The working directory of a lab.

use std::{
    env, fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// Prefix of the directories' names.
const PREFIX: &str = "ddlab.";

/// Sockets and disk images of one lab. The directory is removed with the lab or, if its process was
/// killed, by the next lab on this machine. The process holds a lock on the directory while it
/// lives.
#[derive(Debug)]
pub(crate) struct WorkDir {
    dir: TempDir,
    _lock: fs::File,
}

impl WorkDir {
    /// Makes a directory below the system's directory for temporary files. Its path is short,
    /// because names of sockets have at most 107 bytes.
    pub(crate) fn new() -> Result<Self> {
        Self::new_in(&env::temp_dir())
    }

    fn new_in(parent: &Path) -> Result<Self> {
        remove_orphans(parent);
        loop {
            let dir = tempfile::Builder::new()
                .prefix(PREFIX)
                .tempdir_in(parent)
                .context("cannot make a directory for the lab")?;
            // Another lab may have found it without an owner and removed it.
            if let Some(lock) = own(dir.path()) {
                return Ok(Self { dir, _lock: lock });
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the path of the image of a disk slot.
    pub(crate) fn slot(&self, number: usize) -> PathBuf {
        self.path().join(format!("slot{number}"))
    }
}

/// Takes the lock of a directory, unless its owner lives or it is gone.
fn own(dir: &Path) -> Option<fs::File> {
    let file = fs::File::open(dir).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let same = fs::metadata(dir).ok()?.ino() == file.metadata().ok()?.ino();
    same.then_some(file)
}

/// Removes orphaned directories. Failures are ignored, because the leftovers do no harm.
fn remove_orphans(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if let Some(_lock) = own(&entry.path()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_orphans_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        let orphan = path("ddlab.orphan");
        fs::create_dir(&orphan).unwrap();
        fs::write(orphan.join("slot0"), "x").unwrap();
        fs::create_dir(path("other")).unwrap();
        fs::write(path("ddlab.file"), "x").unwrap();
        let first = WorkDir::new_in(parent.path()).unwrap();
        assert!(!orphan.exists());
        let second = WorkDir::new_in(parent.path()).unwrap();
        assert!(first.path().exists() && second.path().exists());
        assert!(path("other").exists() && path("ddlab.file").exists());
        let left = first.path().to_owned();
        drop(first);
        assert!(!left.exists());
    }
}
