// SPDX-License-Identifier: GPL-2.0-only

//! Allows one daemon at a time, because two would undo each other's weights and limits.

use anyhow::{Context, Result, bail};
use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};
use std::{
    fs::{DirBuilder, File, OpenOptions},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

/// The lock of a daemon, which is held until this is dropped or the process ends.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "it is held")] File);

impl Lock {
    /// Takes the lock of the daemon `daemon` in a directory, which is created if it is missing.
    /// Returns `None` if the directory cannot be used, for example because the user is not root,
    /// and an error if another process has the lock.
    pub fn take(directory: &Path, daemon: &str) -> Result<Option<Self>> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory);
        let path = directory.join(format!("{daemon}.lock"));
        let opened = made.and_then(|()| {
            OpenOptions::new()
                .create(true)
                .write(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(OFlags::NOFOLLOW.bits() as i32)
                .open(&path)
        });
        let file = match opened {
            Ok(file) => file,
            Err(error) => {
                tracing::warn!("cannot lock {}: {error}", path.display());
                return Ok(None);
            }
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(Errno::WOULDBLOCK) => {
                bail!("another {daemon} runs: it has locked {}", path.display())
            }
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_holder() {
        let directory = tempfile::TempDir::new().unwrap();
        let state = directory.path().join("run");
        let first = Lock::take(&state, "policyd").unwrap();
        assert!(first.is_some());
        assert!(Lock::take(&state, "policyd").is_err());
        // Another kind of daemon may run beside it.
        assert!(Lock::take(&state, "ddhostd").unwrap().is_some());
        drop(first);
        assert!(Lock::take(&state, "policyd").unwrap().is_some());
        std::fs::write(directory.path().join("file"), "").unwrap();
        assert!(
            Lock::take(&directory.path().join("file"), "policyd")
                .unwrap()
                .is_none()
        );
    }
}
