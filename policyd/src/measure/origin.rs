// SPDX-License-Identifier: GPL-2.0

//! Asking applications: a page, a program, a file.

mod command;
mod http;

use super::exposition::Search;
use crate::config::Origin;
use anyhow::{Context, Result, bail};
use std::path::Path;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Asks for a page; tests put a fake in its place.
pub trait Ask: Clone + Send + 'static {
    /// Reads what an origin says into a search, piece by piece. The caller limits the time, and
    /// drops the future when it is over.
    fn ask(&self, origin: &Origin, page: &mut Search) -> impl Future<Output = Result<()>> + Send;
}

/// The real ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origins;

impl Ask for Origins {
    async fn ask(&self, origin: &Origin, page: &mut Search) -> Result<()> {
        match origin {
            Origin::Command(command) => command::run(command, page).await,
            Origin::File(path) => read(path, page).await,
            Origin::Http(endpoint) => http::get(endpoint, page).await,
        }
    }
}

async fn read(path: &Path, page: &mut Search) -> Result<()> {
    let name = path.display().to_string();
    let metadata = tokio::fs::metadata(path).await;
    // A pipe, or a device, might keep its reader waiting for ever.
    if !metadata.with_context(|| name.clone())?.is_file() {
        bail!("{name} is no file");
    }
    let file = tokio::fs::File::open(path).await.context(name)?;
    feed(file, page).await
}

async fn feed(mut from: impl AsyncRead + Unpin, page: &mut Search) -> Result<()> {
    let mut buffer = [0; 4 << 10];
    loop {
        match from.read(&mut buffer).await? {
            0 => return Ok(()),
            length => page.feed(&buffer[..length])?,
        }
    }
}
