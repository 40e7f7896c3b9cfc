// SPDX-License-Identifier: GPL-2.0

//! Asking applications: a page, a program, a file.

mod command;
mod file;
mod http;

use super::exposition::Search;
use crate::config::Origin;
use anyhow::Result;

/// Asks for a page; tests put a fake in its place.
pub trait Ask: Clone + Send + 'static {
    /// Reads what an origin says into a search, piece by piece. The caller limits the time, and
    /// drops the future when it is over.
    fn ask(
        &self,
        origin: &Origin,
        subject: &Subject,
        page: &mut Search,
    ) -> impl Future<Output = Result<()>> + Send;
}

/// The container that is asked about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Subject {
    /// Its cgroup.
    pub cgroup: String,
    /// Its pool's name.
    pub name: String,
}

/// The real ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origins;

impl Ask for Origins {
    async fn ask(&self, origin: &Origin, subject: &Subject, page: &mut Search) -> Result<()> {
        match origin {
            Origin::Command(command) => command::run(command, subject, page).await,
            Origin::File(path) => file::read(path, page).await,
            Origin::Http(endpoint) => http::get(endpoint, page).await,
        }
    }
}
