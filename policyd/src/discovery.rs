// SPDX-License-Identifier: GPL-2.0-only

//! Finds out which container a cgroup belongs to, by the names that docker, podman, containerd,
//! Kubernetes and LXC give.
//!
//! The path of a cgroup contains the runtime and the container's id ([`Reference`]); the runtime's
//! own files contain the name ([`Runtimes`]). No daemon is asked, so a runtime that hangs does not
//! matter. A path is trusted only in places where no process but the runtime can make a cgroup
//! (`place`).

mod bundle;
pub(crate) mod place;
mod reference;
mod runtimes;

pub use reference::Reference;
pub use runtimes::Runtimes;

use std::collections::BTreeMap;

/// A container runtime.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Runtime {
    /// containerd: Kubernetes, nerdctl, ctr.
    Containerd,
    /// CRI-O: Kubernetes.
    Crio,
    /// Docker.
    Docker,
    /// LXC and Incus.
    Lxc,
    /// Podman.
    Podman,
}

impl Runtime {
    /// All runtimes.
    pub const ALL: [Self; 5] = [
        Self::Containerd,
        Self::Crio,
        Self::Docker,
        Self::Lxc,
        Self::Podman,
    ];

    /// Returns the name, as a key of the file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Crio => "crio",
            Self::Docker => "docker",
            Self::Lxc => "lxc",
            Self::Podman => "podman",
        }
    }

    /// Returns whether a container can be renamed, and the runtime's files show it.
    pub const fn renames(self) -> bool {
        matches!(self, Self::Docker | Self::Podman)
    }

    /// Returns the runtime of a name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|runtime| runtime.word() == word)
    }
}

/// Identity of a container, as its runtime knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// The runtime.
    pub runtime: Runtime,
    /// Its id.
    pub id: String,
    /// Its name; the id if it has none.
    pub name: String,
    /// Its place in Kubernetes.
    pub pod: Option<Pod>,
}

/// A container's place in Kubernetes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pod {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The container's name within the pod.
    pub container: String,
    /// Those annotations of the pod that the file asks for.
    pub annotations: BTreeMap<String, String>,
}

impl Identity {
    /// Returns the name for display.
    pub fn title(&self) -> String {
        match &self.pod {
            Some(pod) => format!("{}/{}", pod.name, pod.container),
            // LXC uses names as ids, and two of them may have the same beginning.
            None if self.name == self.id && reference::is_id(&self.id) => {
                self.id[..SHORT_ID].into()
            }
            None => self.name.clone(),
        }
    }
}

/// Number of digits of an id that container tools show.
const SHORT_ID: usize = 12;

/// Returns the identity of a container outside of Kubernetes.
fn named(runtime: Runtime, id: String, name: String) -> Identity {
    Identity {
        runtime,
        id,
        name,
        pod: None,
    }
}
