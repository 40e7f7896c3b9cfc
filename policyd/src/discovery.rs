// SPDX-License-Identifier: GPL-2.0-only

//! Who a cgroup is: the names that docker, podman, containerd, Kubernetes and LXC give.
//!
//! The path of a cgroup tells the runtime and the container's id ([`Reference`]); the runtime's
//! own files tell the name ([`Runtimes`]). Nothing is asked of a daemon: a runtime that hangs
//! does not matter. A path is believed only where no process but the runtime can make a cgroup
//! (`place`).

pub(crate) mod place;
mod reference;
mod runtimes;

pub use reference::Reference;
pub use runtimes::Runtimes;

/// What runs containers.
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
    /// Its name, as a key of the file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Crio => "crio",
            Self::Docker => "docker",
            Self::Lxc => "lxc",
            Self::Podman => "podman",
        }
    }

    /// Whether it lets a container be renamed and says so in its files.
    pub const fn renames(self) -> bool {
        matches!(self, Self::Docker | Self::Podman)
    }

    /// The runtime of a name.
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [
            Self::Containerd,
            Self::Crio,
            Self::Docker,
            Self::Lxc,
            Self::Podman,
        ];
        all.into_iter().find(|runtime| runtime.word() == word)
    }
}

/// What its runtime says about a container.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// Who runs it.
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
}

impl Identity {
    /// How people call it.
    pub fn title(&self) -> String {
        match &self.pod {
            Some(pod) => format!("{}/{}", pod.name, pod.container),
            // Names of LXC are ids as well, and two may begin alike.
            None if self.name == self.id && reference::is_id(&self.id) => {
                self.id[..SHORT_ID].into()
            }
            None => self.name.clone(),
        }
    }
}

/// Digits of an id that container tools show.
const SHORT_ID: usize = 12;
