// SPDX-License-Identifier: GPL-2.0-only

//! A cache of expensive results outside of the source tree. Entries are named by their inputs, and
//! are complete or absent.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use rustix::fs::{FlockOperation, flock};

/// Returns the directory of the cache.
pub(crate) fn dir() -> Result<PathBuf> {
    let base = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set")?;
    let dir = base.join("doubledecker");
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    Ok(dir)
}

/// Returns the entry `kind/name`. If it is absent, `make` makes it in a temporary directory beside
/// it. Leftovers of interrupted runs are removed.
pub(crate) fn entry(
    kind: &str,
    name: &str,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let parent = dir()?.join(kind);
    fs::create_dir_all(&parent)?;
    let path = parent.join(name);
    if path.exists() {
        return Ok(path);
    }
    let _lock = take(&parent.join(format!("{name}.lock")))?;
    if path.exists() {
        return Ok(path);
    }
    let temporary = parent.join(format!("{name}.part"));
    remove(&temporary)?;
    fs::create_dir(&temporary)?;
    make(&temporary)?;
    fs::rename(&temporary, &path).with_context(|| format!("cannot finish {}", path.display()))?;
    Ok(path)
}

/// Removes the entries of a kind whose names begin with `prefix`, except `kept`. A run that uses
/// one of them keeps the files that it has opened.
pub(crate) fn remove_others(kind: &str, prefix: &str, kept: &str) -> Result<()> {
    for entry in fs::read_dir(dir()?.join(kind))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // Another run may be at work in a temporary directory.
        let is_kept = name == kept || name.ends_with(".part");
        if name.starts_with(prefix) && !is_kept && entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Returns a short name that depends on `parts`.
pub(crate) fn key(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    hasher.finalize().to_hex()[..12].to_owned()
}

/// Returns the directory in which apt keeps its downloads, and the lock for using it: apt fails if
/// another process of apt uses the directory.
pub(crate) fn apt_downloads() -> Result<(PathBuf, fs::File)> {
    let downloads = entry("apt", "trial", |dir| {
        Ok(fs::create_dir(dir.join("partial"))?)
    })?;
    Ok((downloads, lock("apt/use.lock")?))
}

/// Waits for a lock that all runs on this machine share, and takes it.
pub(crate) fn lock(name: &str) -> Result<fs::File> {
    take(&dir()?.join(name))
}

/// Waits for the lock of the directory `dir`, and takes it.
pub(crate) fn lock_in(dir: &Path) -> Result<fs::File> {
    take(&dir.join(".lock"))
}

fn take(path: &Path) -> Result<fs::File> {
    let file =
        fs::File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        eprintln!("waiting for another run (lock {})", path.display());
        flock(&file, FlockOperation::LockExclusive)?;
    }
    Ok(file)
}

/// Removes a directory with its content, if it exists.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_depend_on_the_borders_of_parts() {
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_eq!(key(&["a"]).len(), 12);
    }
}
