// SPDX-License-Identifier: GPL-2.0-only

//! The configuration file, parsed into types whose values are valid. `docs/users/policyd.md`
//! describes it.

mod container;
mod parse;
mod pattern;
mod reach;
mod roots;
mod selector;
mod target;
mod value;

pub use container::Container;
pub use ddconf::Problem;
pub use pattern::Pattern;
pub use reach::Reach;
pub use roots::Roots;
pub use selector::{Name, Selector};
pub use target::{Endpoint, Figure, Kind, Origin, Source, Target};
pub use value::{Amount, Priority, Size, StoreName};

use crate::discovery::Identity;
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// The configuration, with defaults for keys that the file does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Interval at which figures are taken and the module's state is compared with the wanted one.
    pub interval: Duration,
    /// Mount point of cgroup v2.
    pub cgroup_root: PathBuf,
    /// Weight of the pool for pages outside of containers. Without it, the weight is left alone,
    /// and counts as 100 where targets decide.
    pub default_pool_weight: Option<u32>,
    /// The largest part of the VM's share that moves in one interval, 0 to 1.
    pub max_step: f64,
    /// The largest part of the VM's share that all containers without a floor of their own keep
    /// together, however little they need, 0 to 1.
    pub floors: f64,
    /// How far a container shall exceed its target, so that noise does not break it, 0 to 1.
    pub margin: f64,
    /// Path of the status socket; without it there is none.
    pub status_socket: Option<PathBuf>,
    /// Address at which metrics are served; without it they are not served.
    pub metrics: Option<SocketAddr>,
    /// Directories of container runtimes.
    pub runtimes: Box<Roots>,
    /// Proportional reclaim.
    pub reclaim: Reclaim,
    /// Offload of cold pages.
    pub offload: Offload,
    /// The containers. A cgroup belongs to the first one that it matches.
    pub containers: Vec<Container>,
}

/// Proportional reclaim under memory pressure (thesis, section 4.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reclaim {
    /// Whether it is done.
    pub enabled: bool,
    /// Memory pressure of the VM (PSI some) from which on it reclaims, in percent of time.
    pub pressure: f64,
    /// Part of the VM's memory that has to be available before it stops, 0 to 1.
    pub free: f64,
    /// Bytes to reclaim with one request (thesis, section 4.4.2: 50 MB).
    pub chunk: u64,
}

/// Offload: reclaims in small steps from containers that do not suffer from it, as Senpai does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offload {
    /// Whether containers are offloaded that have no setting of their own.
    pub enabled: bool,
    /// Time between steps.
    pub period: Duration,
    /// Part of a container's memory that a step reclaims, 0 to 1.
    pub step: f64,
    /// Memory pressure (PSI some, percent of time) at which steps shrink to nothing.
    pub pressure: f64,
    /// I/O pressure (PSI some, percent of time) at which steps shrink to nothing.
    pub io_pressure: f64,
    /// Refaults a second at which steps shrink to nothing.
    pub refaults: f64,
}

impl Config {
    /// Parses the text of a file. The error has all problems, not only the first.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        parse::config(text)
    }

    /// Returns the container that a cgroup belongs to, judged by its path alone.
    pub fn container(&self, cgroup: &str) -> Option<&Container> {
        self.container_of(cgroup, None)
    }

    /// Returns the container that a cgroup belongs to. `identity` is the answer of its runtime, if
    /// there is one.
    pub fn container_of(&self, cgroup: &str, identity: Option<&Identity>) -> Option<&Container> {
        self.containers
            .iter()
            .find(|container| container.selector.matches(cgroup, identity))
    }

    /// Returns whether a container is selected by a name that its runtime gives it.
    pub fn asks_names(&self) -> bool {
        self.containers
            .iter()
            .any(|container| container.selector.needs_identity())
    }

    /// Returns the annotations of pods by which containers are selected.
    pub fn annotations(&self) -> impl Iterator<Item = &str> {
        let annotations = self.containers.iter().map(|one| match &one.selector {
            Selector::Pod { annotations, .. } => Some(annotations.keys()),
            _ => None,
        });
        annotations.flatten().flatten().map(String::as_str)
    }

    /// Returns whether weights depend on targets and classes, not only on the file.
    pub fn is_controlled(&self) -> bool {
        self.containers.iter().any(Container::is_controlled)
    }

    /// Returns whether any setting needs figures of containers.
    pub fn measures(&self) -> bool {
        self.is_controlled()
            || self.reclaim.enabled
            || self.offloads()
            || self.containers.iter().any(|one| one.manage_memory)
    }

    /// Returns whether any container is offloaded.
    pub fn offloads(&self) -> bool {
        self.offload.enabled || self.containers.iter().any(|one| one.offload == Some(true))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            cgroup_root: "/sys/fs/cgroup".into(),
            default_pool_weight: None,
            max_step: 0.2,
            floors: 0.05,
            margin: 0.05,
            status_socket: Some("/run/doubledecker/policyd.sock".into()),
            metrics: None,
            runtimes: Box::default(),
            reclaim: Reclaim::default(),
            offload: Offload::default(),
            containers: Vec::new(),
        }
    }
}

impl Default for Reclaim {
    fn default() -> Self {
        Self {
            enabled: false,
            pressure: 10.0,
            free: 0.05,
            chunk: 50 << 20,
        }
    }
}

impl Default for Offload {
    fn default() -> Self {
        Self {
            enabled: false,
            period: Duration::from_secs(6),
            step: 0.005,
            pressure: 0.1,
            io_pressure: 1.0,
            refaults: 100.0,
        }
    }
}
