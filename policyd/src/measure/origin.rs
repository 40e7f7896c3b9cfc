// SPDX-License-Identifier: GPL-2.0-only

//! Asking applications: a page, a program, a file.

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

/// Asks for a page; tests put a fake in its place.
pub trait Ask: Clone + Send + 'static {
    /// Reads what an origin says into a search, piece by piece. The caller limits the time, and
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

/// The real ones.
#[derive(Clone, Debug)]
pub struct Origins {
    proc: PathBuf,
    cgroup_root: PathBuf,
    /// Where commands have cgroups of their own, once one was to run; `None` if they have none.
    leaves: Arc<OnceLock<Option<Arc<Leaves>>>>,
}

impl Origins {
    /// Origins whose commands run in cgroups below the one that was delegated to this process, as
    /// its `/proc` tells, if cgroup v2 is mounted at `cgroup_root`.
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
                    "commands run in process groups, which they can leave, for want of cgroups: \
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
