// SPDX-License-Identifier: GPL-2.0-only

//! The tree that packages are built in: the sources, with `packaging/debian` at its top.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::version::Version;
use crate::{cache, tidy, workspace};

/// Directory of the build's output, which is kept from one build to the next.
pub(super) const TARGET: &str = "target";

/// Brings the tree in `dir` up to date. A file that does not differ is left alone, so that cargo
/// does not compile it again.
pub(super) fn lay_out(version: &Version, dir: &Path) -> Result<()> {
    let debian = dir.join("debian");
    cache::remove(&debian)?;
    fs::create_dir_all(dir.join(TARGET))?;
    let wanted: BTreeSet<PathBuf> = tidy::files(workspace::top())?
        .into_iter()
        .map(PathBuf::from)
        // Files that are deleted but not committed are listed, too.
        .filter(|path| workspace::top().join(path).is_file())
        .collect();
    for path in &wanted {
        copy(&workspace::top().join(path), &dir.join(path))?;
    }
    remove_others(dir, Path::new(""), &wanted)?;
    for path in wanted.iter() {
        if let Ok(inner) = path.strip_prefix("packaging/debian") {
            copy(&workspace::top().join(path), &debian.join(inner))?;
        }
    }
    fs::write(debian.join("changelog"), version.changelog())?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let is_same = fs::read(to).is_ok_and(|old| fs::read(from).is_ok_and(|new| new == old));
    if is_same {
        return Ok(());
    }
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// Removes files of an earlier tree that are not wanted any more.
fn remove_others(top: &Path, below: &Path, wanted: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(top.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if path == Path::new(TARGET) {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true if wanted.iter().any(|file| file.starts_with(&path)) => {
                remove_others(top, &path, wanted)?;
            }
            true => fs::remove_dir_all(top.join(&path))?,
            false if wanted.contains(&path) => {}
            false => fs::remove_file(top.join(&path))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_wanted_goes() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a/b/c", "a/d", "e/f", "target/g", "h"] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let wanted = ["a/b/c", "h"].map(PathBuf::from);
        remove_others(dir.path(), Path::new(""), &wanted.into()).unwrap();
        let is_there = |path: &str| dir.path().join(path).exists();
        assert!(is_there("a/b/c") && is_there("h") && is_there("target/g"));
        assert!(!is_there("a/d") && !is_there("e"));
    }

    #[test]
    fn a_file_that_is_the_same_keeps_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, "x").unwrap();
        fs::write(&to, "x").unwrap();
        let time = std::time::SystemTime::UNIX_EPOCH;
        let file = fs::File::options().write(true).open(&to).unwrap();
        file.set_modified(time).unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().modified().unwrap(), time);
        fs::write(&from, "y").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "y");
    }
}
