// SPDX-License-Identifier: GPL-2.0-only

//! Directories in which container runtimes keep their files.

use std::path::{Path, PathBuf};

/// The directories of each runtime. A container is looked for in all of its runtime's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Roots {
    /// State directories of containerd, which have the bundles of containers that run.
    pub containerd: Vec<PathBuf>,
    /// Run roots of CRI-O's storage.
    pub crio: Vec<PathBuf>,
    /// Data roots of docker.
    pub docker: Vec<PathBuf>,
    /// Graph roots and run roots of podman's storage.
    pub podman: Vec<PathBuf>,
}

impl Roots {
    /// Returns these directories below another root of the file system.
    pub(crate) fn below(&self, root: &Path) -> Self {
        let below = |directories: &[PathBuf]| {
            let below = |one: &PathBuf| root.join(one.strip_prefix("/").unwrap_or(one));
            directories.iter().map(below).collect()
        };
        Self {
            containerd: below(&self.containerd),
            crio: below(&self.crio),
            docker: below(&self.docker),
            podman: below(&self.podman),
        }
    }
}

impl Default for Roots {
    fn default() -> Self {
        let list = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Self {
            // The second one is that of k3s and RKE2.
            containerd: list(&["/run/containerd", "/run/k3s/containerd"]),
            crio: list(&["/run/containers/storage"]),
            docker: list(&["/var/lib/docker"]),
            podman: list(&["/var/lib/containers/storage", "/run/containers/storage"]),
        }
    }
}
