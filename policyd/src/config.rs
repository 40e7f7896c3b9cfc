// SPDX-License-Identifier: GPL-2.0-only

//! The configuration file, parsed into what cannot be wrong. `docs/policyd.md` describes it.

mod container;
mod parse;
mod pattern;
mod reach;
mod selector;
mod target;
mod value;

pub use container::Container;
pub use ddconf::Problem;
pub use pattern::Pattern;
pub use reach::Reach;
pub use selector::{Name, Selector};
pub use target::{Endpoint, Figure, Kind, Origin, Source, Target};
pub use value::{Amount, Priority, Size, Store};

use crate::discovery::Identity;
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// Everything the file says, or would say if it said nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How often the module's state is compared with the wanted one, and figures are taken.
    pub interval: Duration,
    /// Where cgroup v2 is mounted.
    pub cgroup_root: PathBuf,
    /// Weight of everything outside containers; `None` leaves it alone, or counts as 100 where
    /// targets decide.
    pub default_pool_weight: Option<u32>,
    /// Most of the VM's share that moves in one interval, 0 to 1.
    pub max_step: f64,
    /// Most of the VM's share that containers without a floor of their own keep together, however
    /// little they need; 0 to 1.
    pub floors: f64,
    /// How much better than its target a container shall be, so that noise does not break it;
    /// 0 to 1.
    pub margin: f64,
    /// Where the daemon tells its state; nowhere if absent.
    pub status_socket: Option<PathBuf>,
    /// Where metrics are served; nowhere if absent.
    pub metrics: Option<SocketAddr>,
    /// Proportional reclaim.
    pub reclaim: Reclaim,
    /// Pushing cold pages out.
    pub offload: Offload,
    /// Containers; the first one that matches a cgroup counts.
    pub containers: Vec<Container>,
}

/// Proportional reclaim under memory pressure (thesis, section 4.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reclaim {
    /// Whether it is done.
    pub enabled: bool,
    /// From which memory pressure of the VM on (PSI some), in percent of time.
    pub pressure: f64,
    /// It goes on until so much of the VM's memory is available, 0 to 1.
    pub free: f64,
    /// Bytes asked for at once (thesis, section 4.4.2: 50 MB).
    pub chunk: u64,
}

/// Small steps of reclaim on containers that do not suffer from it, as Senpai does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offload {
    /// Whether it is done for containers that do not say so themselves.
    pub enabled: bool,
    /// How long between steps.
    pub period: Duration,
    /// Part of a container's memory that a step takes, 0 to 1.
    pub step: f64,
    /// Memory pressure (PSI some, percent of time) at which steps become nothing.
    pub pressure: f64,
    /// The same for I/O pressure.
    pub io_pressure: f64,
    /// Refaults a second at which steps become nothing.
    pub refaults: f64,
}

impl Config {
    /// Reads a file's text; all problems are told, not only the first.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        parse::config(text)
    }

    /// The container a cgroup is, by its path alone.
    pub fn container(&self, cgroup: &str) -> Option<&Container> {
        self.container_of(cgroup, None)
    }

    /// The container a cgroup is; `identity` is what its runtime says about it, if known.
    pub fn container_of(&self, cgroup: &str, identity: Option<&Identity>) -> Option<&Container> {
        self.containers
            .iter()
            .find(|container| container.selector.matches(cgroup, identity))
    }

    /// Whether containers are told by the names their runtimes give them.
    pub fn asks_names(&self) -> bool {
        self.containers
            .iter()
            .any(|container| container.selector.needs_identity())
    }

    /// Whether weights are decided by targets and classes, not only by the file.
    pub fn is_controlled(&self) -> bool {
        self.containers.iter().any(Container::is_controlled)
    }

    /// Whether anything needs figures of containers.
    pub fn measures(&self) -> bool {
        self.is_controlled()
            || self.reclaim.enabled
            || self.offloads()
            || self.containers.iter().any(|one| one.manage_memory)
    }

    /// Whether cold pages of any container are pushed out.
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
