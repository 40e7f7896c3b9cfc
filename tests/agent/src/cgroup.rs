// SPDX-License-Identifier: GPL-2.0-only

//! Cgroups (v2).

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// Mount point of the hierarchy.
pub(crate) const MOUNT: &str = "/sys/fs/cgroup";

/// Creates a cgroup with all controllers and writes its files in order.
pub(crate) fn create(path: &str, set: &[(String, String)]) -> Result<()> {
    let mut dir = PathBuf::from(MOUNT);
    for part in path.split('/').filter(|part| !part.is_empty()) {
        delegate(&dir);
        dir.push(part);
        if !dir.exists() {
            fs::create_dir(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        }
    }
    for (file, value) in set {
        let path = dir.join(file);
        fs::write(&path, value)
            .with_context(|| format!("cannot write {value:?} to {}", path.display()))?;
    }
    Ok(())
}

/// Moves this process into a cgroup.
pub(crate) fn enter(path: &str) -> Result<()> {
    let procs = Path::new(MOUNT)
        .join(path.trim_matches('/'))
        .join("cgroup.procs");
    fs::write(&procs, "0").with_context(|| format!("cannot enter {}", procs.display()))
}

/// Enables all controllers for the children of `dir`. A missing controller causes an error when its
/// files are written.
pub(crate) fn delegate(dir: &Path) {
    for controller in ["cpu", "cpuset", "io", "memory", "pids"] {
        let _ = fs::write(dir.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}
