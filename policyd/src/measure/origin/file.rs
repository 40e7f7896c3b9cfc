// SPDX-License-Identifier: GPL-2.0-only

//! A file of an application.

use crate::{measure::exposition::Search, regular};
use anyhow::{Context, Result, bail};
use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};
use tokio::sync::oneshot;

/// Threads that read files. A filesystem may keep one for as long as it likes, and that one is
/// lost; limits of memory are written by other threads.
static READERS: AtomicUsize = AtomicUsize::new(0);
/// Most of these at once.
const MOST_READERS: usize = 4;
/// Bytes of stack, of which opening and reading need few.
const STACK: usize = 128 << 10;

/// Reads a file, in a thread of its own.
pub(super) async fn read(path: &Path, page: &mut Search) -> Result<()> {
    let name = path.display().to_string();
    match begin(path.into()).with_context(|| name.clone())?.await {
        Ok(text) => page.feed(&text.context(name.clone())?).context(name),
        Err(_) => bail!("{name}: not read"),
    }
}

fn begin(path: PathBuf) -> Result<oneshot::Receiver<io::Result<Vec<u8>>>> {
    let (sender, receiver) = oneshot::channel();
    if READERS.fetch_add(1, Ordering::Relaxed) >= MOST_READERS {
        READERS.fetch_sub(1, Ordering::Relaxed);
        bail!("other files are being read and do not answer");
    }
    let read = move || {
        let text = bounded(&path);
        READERS.fetch_sub(1, Ordering::Relaxed);
        // It took too long if it is not waited for any more.
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
    // One more, so that a page that is too long is told from one that just fits.
    let most = Search::LONGEST as u64 + 1;
    regular::open(path)?.take(most).read_to_end(&mut text)?;
    Ok(text)
}
