// SPDX-License-Identifier: GPL-2.0-only

//! Asks applications by a page, a program or a file.

mod command;
mod file;
mod http;
mod leaf;

use super::exposition::Search;
use crate::config::Origin;
use anyhow::Result;
use leaf::Leaves;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use tracing::warn;

/// Reads an origin. Tests replace it by a fake.
pub trait Ask: Clone + Send + 'static {
    /// Reads the output of an origin into a search, piece by piece. The caller limits the time, and
    /// drops the future when it is over.
    fn ask(
        &self,
        origin: &Origin,
        container: &ContainerName,
        page: &mut Search,
    ) -> impl Future<Output = Result<()>> + Send;
}

/// Identifies the container whose figures are asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ContainerName {
    /// Its cgroup.
    pub cgroup: String,
    /// Its pool's name.
    pub name: String,
}

/// The origins of the running system.
#[derive(Clone, Debug)]
pub struct Origins {
    proc: PathBuf,
    cgroup_root: PathBuf,
    /// The cgroups of commands, which are opened before the first command runs; `None` if there can
    /// be none.
    leaves: Arc<OnceLock<Option<Arc<Leaves>>>>,
}

impl Origins {
    /// Creates origins whose commands run in cgroups below the one that was delegated to this
    /// process. `proc` is `/proc`, and `cgroup_root` is the mount point of cgroup v2.
    pub fn new(proc: &Path, cgroup_root: &Path) -> Self {
        Self {
            proc: proc.into(),
            cgroup_root: cgroup_root.into(),
            leaves: Arc::default(),
        }
    }

    fn leaves(&self) -> Option<&Arc<Leaves>> {
        let open = || match Leaves::open(&self.proc, &self.cgroup_root) {
            Ok(leaves) => Some(leaves),
            Err(error) => {
                warn!(
                    "commands have no cgroups, only process groups, which they can leave: \
                     {error:#}"
                );
                None
            }
        };
        self.leaves.get_or_init(open).as_ref()
    }
}

impl Ask for Origins {
    async fn ask(
        &self,
        origin: &Origin,
        container: &ContainerName,
        page: &mut Search,
    ) -> Result<()> {
        match origin {
            Origin::Command(command) => {
                let leaf = self.leaves().map(Leaves::make).transpose()?;
                command::run(command, container, leaf, page).await
            }
            Origin::File(path) => file::read(path, page).await,
            Origin::Http(endpoint) => http::get(endpoint, page).await,
        }
    }
}
