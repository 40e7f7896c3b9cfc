// SPDX-License-Identifier: GPL-2.0-only

//! A file that is used as a swap file and then read again.

use std::{
    fs::{self, File},
    io::ErrorKind,
    os::unix::fs::FileExt as _,
    path::Path,
};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::{
    change::{forget, sync, writer},
    model::Alone,
    special::{Done, without_journal},
    worker::Worker,
};
use crate::swap_file::{SwapFile, on_disk, push_out, sign};

impl Worker<'_> {
    /// Uses a file as a swap file. A task that read the file in the meantime would leave outdated
    /// pages in the page cache, with and without the modules, so that the lock `quiet` excludes
    /// such tasks.
    pub(super) fn swap(&mut self, path: &Path, model: &mut Alone<'_>) -> Done {
        without_journal(path)?;
        // Blocks must be allocated, and belong to no other file.
        let file = writer(path, OFlags::empty())?;
        file.set_len(0)?;
        file.write_all_at(model.content().unwrap_or_default(), 0)?;
        flock(&self.quiet, FlockOperation::LockExclusive)?;
        let swapped = swap(path, &file, self.rng.any());
        flock(&self.quiet, FlockOperation::Unlock)?;
        let disk = on_disk(path)?;
        // The signature is in the file, whatever happened after it.
        model.room(0, disk.len()).copy_from_slice(&disk);
        match swapped {
            // No part of the file consists of whole pages on the disk.
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(false),
            swapped => swapped,
        }
    }
}

/// Swaps to a file whose pages the host has. Returns whether this changed the file.
fn swap(path: &Path, file: &File, seed: u64) -> Done {
    sign(path)?;
    forget(path)?;
    fs::read(path)?;
    forget(path)?;
    let before = on_disk(path)?;
    let swap_file = SwapFile::start(path)?;
    let mut content = vec![0; before.len() / 2];
    ddhelper::churn::fill(seed, 0, &mut content);
    let swapped = push_out(&content);
    swap_file.end()?;
    swapped?;
    sync(file)?;
    Ok(on_disk(path)? != before)
}
