// SPDX-License-Identifier: GPL-2.0-only

//! Reads the names of containers from the runtimes' own files.

use super::{Identity, Reference, Runtime, bundle::Bundle, named};
use crate::{
    config::{Config, Roots},
    regular,
};
use serde::{Deserialize, de::DeserializeOwned};
use std::{
    collections::{BTreeSet, HashMap},
    fs,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The files of the runtimes.
#[derive(Clone, Debug)]
pub struct Runtimes {
    roots: Roots,
    /// The annotations of pods that are kept. All of them would take much memory.
    annotations: BTreeSet<String>,
    /// Podman's lists of all containers, by their paths. They are kept because they are long, and
    /// each container needs them.
    lists: HashMap<PathBuf, List>,
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
const MAX_BYTES: u64 = 4 << 20;

/// The directory of bundles in a state directory of containerd.
const TASKS: &str = "io.containerd.runtime.v2.task";
/// The end of the names of directories in a storage, one for each storage driver:
/// `overlay-containers`, `vfs-containers`, …
const STORAGE_END: &str = "-containers";

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

impl Runtimes {
    /// Creates the runtimes whose files are where the file says, below the root of a machine.
    /// Tests pass a directory of their own.
    pub fn new(root: &Path, config: &Config) -> Self {
        Self {
            roots: config.runtimes.below(root),
            annotations: config.annotations().map(Into::into).collect(),
            lists: HashMap::new(),
        }
    }

    /// Returns why the files of a runtime cannot be read, for each of its directories. There is no
    /// obstacle if one of these can be read; LXC has no files.
    pub fn obstacles(&self, runtime: Runtime) -> Vec<(PathBuf, io::Error)> {
        let (roots, below) = match runtime {
            Runtime::Containerd => (&self.roots.containerd, Some(TASKS)),
            Runtime::Crio => (&self.roots.crio, None),
            Runtime::Docker => (&self.roots.docker, Some("containers")),
            Runtime::Lxc => return Vec::new(),
            Runtime::Podman => (&self.roots.podman, None),
        };
        let mut obstacles = Vec::new();
        for root in roots {
            let directory = below.map_or_else(|| root.clone(), |below| root.join(below));
            match fs::read_dir(&directory) {
                Ok(_) if below.is_some() || !storages(root).is_empty() => return Vec::new(),
                Ok(_) => {
                    let storages = root.join(format!("*{STORAGE_END}"));
                    obstacles.push((storages, io::ErrorKind::NotFound.into()));
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
        let file = |root: &PathBuf| root.join("containers").join(&id).join("config.v2.json");
        let mut states = self.roots.docker.iter().map(file);
        let state: DockerState = states.find_map(|path| read(&path))?;
        let name = state.name.trim_start_matches('/').to_owned();
        Some(named(Runtime::Docker, id, name))
    }

    fn podman(&mut self, id: String) -> Option<Identity> {
        let storages: Vec<PathBuf> = self
            .roots
            .podman
            .iter()
            .flat_map(|root| storages(root))
            .collect();
        for storage in storages {
            for file in ["containers.json", "volatile-containers.json"] {
                let names = self.names(storage.join(file));
                if let Some(name) = names.and_then(|names| names.get(&id)) {
                    let name = name.clone().unwrap_or_else(|| id.clone());
                    return Some(named(Runtime::Podman, id, name));
                }
            }
        }
        None
    }

    /// Returns the names in a list of podman's, which is read again if it has changed.
    fn names(&mut self, path: PathBuf) -> Option<&HashMap<String, Option<String>>> {
        let file = fs::symlink_metadata(&path).ok()?;
        let version = (file.ino(), file.len(), file.mtime(), file.mtime_nsec());
        let known = self.lists.get(&path);
        if known.is_none_or(|list| list.version != version) {
            self.lists.remove(&path);
            let entries: Vec<StorageEntry> = read(&path)?;
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
        let roots = self.roots.containerd.iter();
        let mut namespaces = roots.flat_map(|root| list(&root.join(TASKS)));
        let bundle: Bundle =
            namespaces.find_map(|namespace| read(&namespace.join(&id).join("config.json")))?;
        Some(bundle.of_containerd(id, &self.annotations))
    }

    fn crio(&self, id: String) -> Option<Identity> {
        let mut storages = self.roots.crio.iter().flat_map(|root| storages(root));
        let bundle: Bundle =
            storages.find_map(|storage| read(&storage.join(&id).join("userdata/config.json")))?;
        Some(bundle.of_crio(id, &self.annotations))
    }
}

/// Returns the directories of a storage that have containers, one for each storage driver.
fn storages(root: &Path) -> Vec<PathBuf> {
    let is_storage = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.ends_with(STORAGE_END))
    };
    list(root).into_iter().filter(is_storage).collect()
}

/// Returns the sorted paths of the entries of a directory, or no paths if it cannot be read.
fn list(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

/// Reads a JSON file. Returns `None` for anything but a regular file, and for one that is too long,
/// incomplete or of another form.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let text = read_bounded(path).ok()?;
    serde_json::from_slice(&text).ok()
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    regular::open(path)?
        .take(MAX_BYTES)
        .read_to_end(&mut text)?;
    Ok(text)
}
