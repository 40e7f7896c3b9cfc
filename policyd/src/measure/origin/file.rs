// SPDX-License-Identifier: GPL-2.0-only

//! Reads a file of an application.

use crate::{measure::exposition::Search, regular};
use anyhow::{Context, Result, bail};
use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};
use tokio::sync::oneshot;

/// Number of threads that read files. A hanging filesystem can block such a thread for ever, so
/// that the threads that write limits are separate.
static READERS: AtomicUsize = AtomicUsize::new(0);
/// The most of these threads.
const MAX_READERS: usize = 4;
/// Size of their stacks, of which opening and reading need little.
const STACK: usize = 128 << 10;

/// Reads a file in a separate thread.
pub(super) async fn read(path: &Path, page: &mut Search) -> Result<()> {
    let name = path.display().to_string();
    match begin(path.into()).with_context(|| name.clone())?.await {
        Ok(text) => page.feed(&text.context(name.clone())?).context(name),
        Err(_) => bail!("{name}: not read"),
    }
}

fn begin(path: PathBuf) -> Result<oneshot::Receiver<io::Result<Vec<u8>>>> {
    let (sender, receiver) = oneshot::channel();
    if READERS.fetch_add(1, Ordering::Relaxed) >= MAX_READERS {
        READERS.fetch_sub(1, Ordering::Relaxed);
        bail!("other files are being read and do not answer");
    }
    let read = move || {
        let text = bounded(&path);
        READERS.fetch_sub(1, Ordering::Relaxed);
        // This fails if the caller has stopped waiting.
        let _ = sender.send(text);
    };
    let thread = thread::Builder::new().name("file".into()).stack_size(STACK);
    if let Err(error) = thread.spawn(read) {
        READERS.fetch_sub(1, Ordering::Relaxed);
        return Err(error.into());
    }
    Ok(receiver)
}

fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    // One byte more than the limit is read, to distinguish a page that is too long from one that
    // just fits.
    let limit = Search::MAX_BYTES as u64 + 1;
    regular::open(path)?.take(limit).read_to_end(&mut text)?;
    Ok(text)
}
