// SPDX-License-Identifier: GPL-2.0-only

//! Reads the names of containers from the runtimes' own files.

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

/// The files of the runtimes below a root directory.
#[derive(Clone, Debug)]
pub struct Runtimes {
    root: PathBuf,
    /// Podman's lists of all containers, by their paths. They are kept because they are long, and
    /// each container needs them.
    lists: HashMap<String, List>,
}

/// A list, with the version of the file that was read.
#[derive(Clone, Debug)]
struct List {
    version: Version,
    /// The first name of each id.
    names: HashMap<String, Option<String>>,
}

/// Tells whether a file has changed: its inode number, its length, and the time of its last change.
type Version = (u64, u64, i64, i64);

/// The longest file that is read, which is more than any runtime writes.
const LONGEST: u64 = 4 << 20;

const DOCKER: &str = "var/lib/docker/containers";
const TASKS: &str = "run/containerd/io.containerd.runtime.v2.task";
const RUN_STORAGE: &str = "run/containers/storage";
const STORAGES: [&str; 2] = ["var/lib/containers/storage", RUN_STORAGE];
/// The end of the names of directories in a storage, one for each storage driver.
const STORAGE_END: &str = "-containers";

/// Returns the directories in which a runtime keeps files, and the end of the names of those
/// directories in them that have the files.
fn directories(runtime: Runtime) -> Vec<(&'static str, &'static str)> {
    match runtime {
        Runtime::Containerd => vec![(TASKS, "")],
        Runtime::Crio => vec![(RUN_STORAGE, STORAGE_END)],
        Runtime::Docker => vec![(DOCKER, "")],
        Runtime::Lxc => Vec::new(),
        Runtime::Podman => STORAGES.map(|one| (one, STORAGE_END)).into(),
    }
}

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

/// Those fields of an OCI bundle's configuration that are used.
#[derive(Deserialize)]
struct Bundle {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Runtimes {
    /// Creates the runtimes whose files are below a root. Tests pass a directory of their own.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.into(),
            lists: HashMap::new(),
        }
    }

    /// Returns why the files of a runtime cannot be read, for each of their directories. There is no
    /// obstacle if one of these can be read; LXC has no files.
    pub fn obstacles(&self, runtime: Runtime) -> Vec<(PathBuf, io::Error)> {
        let mut obstacles = Vec::new();
        for (place, end) in directories(runtime) {
            let directory = self.root.join(place);
            match fs::read_dir(&directory) {
                Ok(_) if end.is_empty() => return Vec::new(),
                Ok(_) if self.list(place).iter().any(|name| name.ends_with(end)) => {
                    return Vec::new();
                }
                Ok(_) => {
                    let below = directory.join(format!("*{end}"));
                    obstacles.push((below, io::ErrorKind::NotFound.into()));
                }
                Err(error) => obstacles.push((directory, error)),
            }
        }
        obstacles
    }

    /// Returns the identity of a cgroup's container, or `None` if no file has it (yet).
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
        let path = format!("{DOCKER}/{id}/config.v2.json");
        let state: DockerState = self.read(&path)?;
        let name = state.name.trim_start_matches('/').to_owned();
        Some(named(Runtime::Docker, id, name))
    }

    fn podman(&mut self, id: String) -> Option<Identity> {
        // There is one directory for each storage driver: `overlay-containers`, `vfs-containers`, …
        for storage in STORAGES {
            for directory in self.list(storage) {
                if !directory.ends_with(STORAGE_END) {
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

    /// Returns the names in a list of podman's, which is read again if it has changed.
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
        let bundle: Bundle = self.list(RUN_STORAGE).into_iter().find_map(|directory| {
            self.read(&format!(
                "{RUN_STORAGE}/{directory}/{id}/userdata/config.json"
            ))
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

    /// Returns the sorted names in a directory; none if it cannot be read.
    fn list(&self, directory: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.join(directory)) else {
            return Vec::new();
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Reads a JSON file. Returns `None` for anything but a regular file, and for one that is too
    /// long, incomplete or of another form.
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
