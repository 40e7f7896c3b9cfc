// SPDX-License-Identifier: GPL-2.0-only

//! The runtimes' own files, which tell the names of containers.

use super::{Identity, Pod, Reference, Runtime};
use crate::regular;
use serde::{Deserialize, de::DeserializeOwned};
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Where the runtimes keep their files, below a root.
#[derive(Clone, Debug)]
pub struct Runtimes {
    root: PathBuf,
    /// Podman's lists of all containers, by their paths: they are long, and asked for each of them.
    lists: HashMap<String, List>,
}

/// A list as it was read.
#[derive(Clone, Debug)]
struct List {
    version: Version,
    /// First names by ids.
    names: HashMap<String, Option<String>>,
}

/// Tells a file from what it was before: the number, the length, and when it was changed.
type Version = (u64, u64, i64, i64);

/// More than any runtime writes; a file that is longer is not read.
const LONGEST: u64 = 4 << 20;

/// Docker's state of a container.
#[derive(Deserialize)]
struct DockerState {
    #[serde(rename = "Name")]
    name: String,
}

/// An entry of containers/storage, which podman names.
#[derive(Deserialize)]
struct StorageEntry {
    id: String,
    #[serde(default)]
    names: Vec<String>,
}

/// An OCI bundle's configuration; only what is looked at.
#[derive(Deserialize)]
struct Bundle {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Runtimes {
    /// The runtimes of this machine, or of a tree that stands for one.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.into(),
            lists: HashMap::new(),
        }
    }

    /// Who the container of a cgroup is; `None` if no file tells it (yet).
    pub fn identify(&mut self, cgroup: &str) -> Option<Identity> {
        let Reference { runtime, id } = Reference::of(cgroup)?;
        match runtime {
            Runtime::Containerd => self.containerd(id),
            Runtime::Crio => self.crio(id),
            Runtime::Docker => self.docker(id),
            Runtime::Lxc => Some(named(runtime, id.clone(), id)),
            Runtime::Podman => self.podman(id),
        }
    }

    fn docker(&self, id: String) -> Option<Identity> {
        let path = format!("var/lib/docker/containers/{id}/config.v2.json");
        let state: DockerState = self.read(&path)?;
        let name = state.name.trim_start_matches('/').to_owned();
        Some(named(Runtime::Docker, id, name))
    }

    fn podman(&mut self, id: String) -> Option<Identity> {
        // One directory for each storage driver: `overlay-containers`, `vfs-containers`, …
        for storage in ["var/lib/containers/storage", "run/containers/storage"] {
            for directory in self.list(storage) {
                if !directory.ends_with("-containers") {
                    continue;
                }
                for file in ["containers.json", "volatile-containers.json"] {
                    let names = self.names(format!("{storage}/{directory}/{file}"));
                    if let Some(name) = names.and_then(|names| names.get(&id)) {
                        let name = name.clone().unwrap_or_else(|| id.clone());
                        return Some(named(Runtime::Podman, id, name));
                    }
                }
            }
        }
        None
    }

    /// The names in a list of podman's, read again if it was changed.
    fn names(&mut self, path: String) -> Option<&HashMap<String, Option<String>>> {
        let file = fs::symlink_metadata(self.root.join(&path)).ok()?;
        let version = (file.ino(), file.len(), file.mtime(), file.mtime_nsec());
        let known = self.lists.get(&path);
        if known.is_none_or(|list| list.version != version) {
            self.lists.remove(&path);
            let entries: Vec<StorageEntry> = self.read(&path)?;
            let names = entries.into_iter();
            let names = names.map(|entry| (entry.id, entry.names.into_iter().next()));
            let list = List {
                version,
                names: names.collect(),
            };
            self.lists.insert(path.clone(), list);
        }
        self.lists.get(&path).map(|list| &list.names)
    }

    fn containerd(&self, id: String) -> Option<Identity> {
        const TASKS: &str = "run/containerd/io.containerd.runtime.v2.task";
        let bundle: Bundle = self
            .list(TASKS)
            .into_iter()
            .find_map(|namespace| self.read(&format!("{TASKS}/{namespace}/{id}/config.json")))?;
        let annotation = |key: &str| bundle.annotations.get(key).cloned();
        let cri = |key: &str| annotation(&format!("io.kubernetes.cri.{key}"));
        let sandbox = cri("container-type").as_deref() == Some("sandbox");
        let pod = || {
            Some(Pod {
                namespace: cri("sandbox-namespace")?,
                name: cri("sandbox-name")?,
                container: cri("container-name")?,
            })
        };
        let pod = if sandbox { None } else { pod() };
        let name = pod
            .as_ref()
            .map(|pod| pod.container.clone())
            .or_else(|| annotation("nerdctl/name"))
            .unwrap_or_else(|| id.clone());
        Some(Identity {
            pod,
            ..named(Runtime::Containerd, id, name)
        })
    }

    fn crio(&self, id: String) -> Option<Identity> {
        const STORAGE: &str = "run/containers/storage";
        let bundle: Bundle = self.list(STORAGE).into_iter().find_map(|directory| {
            self.read(&format!("{STORAGE}/{directory}/{id}/userdata/config.json"))
        })?;
        let annotation = |key: &str| {
            bundle
                .annotations
                .get(&format!("io.kubernetes.{key}"))
                .cloned()
        };
        let sandbox = annotation("cri-o.ContainerType").as_deref() == Some("sandbox");
        let pod = || {
            Some(Pod {
                namespace: annotation("pod.namespace")?,
                name: annotation("pod.name")?,
                container: annotation("container.name")?,
            })
        };
        let pod = if sandbox { None } else { pod() };
        let name = pod
            .as_ref()
            .map_or_else(|| id.clone(), |pod| pod.container.clone());
        Some(Identity {
            pod,
            ..named(Runtime::Crio, id, name)
        })
    }

    /// Names in a directory, in order; none if it cannot be read.
    fn list(&self, directory: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.join(directory)) else {
            return Vec::new();
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// A JSON file; what is no file, too long, half written or of another form is none.
    fn read<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        let text = read_bounded(&self.root.join(path)).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    regular::open(path)?.take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}

fn named(runtime: Runtime, id: String, name: String) -> Identity {
    Identity {
        runtime,
        id,
        name,
        pod: None,
    }
}
