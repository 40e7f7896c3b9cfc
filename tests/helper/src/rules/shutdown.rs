// SPDX-License-Identifier: GPL-2.0-only

//! A filesystem is shut down with a page that was written to memory only. Pages of other files are
//! still read from the host, through mappings, until it is mounted again.

use std::{os::unix::fs::FileExt as _, path::Path};

use anyhow::{Context as _, Result};
use memmap2::{Advice, Mmap};
use rustix::fs::OFlags;

use super::{
    at, content,
    kept::{Kept, xfs_io},
    remount,
};
use crate::swap_file::on_disk;

const PAGES: usize = 64;

pub(super) fn shutdown(dir: &Path, device: &str, fstype: &str) -> Result<u64> {
    let kept = Kept::create(dir, "shutdown", PAGES)?;
    let lost = Kept::create(dir, "shutdown.lost", PAGES)?;
    super::give_away(&kept.file)?;
    super::give_away(&lost.file)?;
    let writer = lost.writer(OFlags::empty())?;
    writer.write_all_at(&content(2, PAGES << 11), at(PAGES / 4))?;
    drop(writer);
    // SAFETY: no task writes to the file.
    let map = unsafe { Mmap::map(&kept.file)? };
    xfs_io(dir, "shutdown")?;
    map.advise(Advice::PopulateRead)
        .context("the pages do not come from the host")?;
    let pairs = map.iter().zip(&kept.want);
    let sum = pairs.filter(|(found, want)| found != want).count() as u64;
    drop(map);

    let [kept, lost] = [kept, lost].map(|file| file.path);
    remount(dir, device, fstype)?;
    let kept = Kept::open(&kept, PAGES)?;
    let lost = Kept {
        want: on_disk(&lost)?,
        ..Kept::open(&lost, PAGES)?
    };
    Ok(sum + kept.look("a mount", 0..=0)? + lost.look("a mount", 0..=0)?)
}
