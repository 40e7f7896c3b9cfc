// SPDX-License-Identifier: GPL-2.0-only

//! Two files swap blocks while the host has the pages of both (`EXT4_IOC_MOVE_EXT`): the donor has
//! other content afterwards.

use std::{fs::File, os::unix::fs::FileExt as _, path::Path};

use anyhow::{Result, ensure};
use ddhelper::churn::PAGE;
use memmap2::MmapMut;
use rustix::fs::{OFlags, statvfs};

use super::{at, content, create, give_away, wrong};
use crate::{files::open, ioctl::move_extents};

const PAGES: usize = 64;

pub(super) fn donor(dir: &Path) -> Result<u64> {
    let taker = content(1, PAGES * PAGE);
    let old = content(2, PAGES * PAGE);
    let files = [("taker", &taker), ("donor", &old)].map(|(name, bytes)| -> Result<File> {
        let file = create(dir, name)?;
        file.write_all_at(bytes, 0)?;
        give_away(&file)?;
        Ok(file)
    });
    let [file, donor] = files;
    let (file, donor) = (file?, donor?);
    let blocks = at(PAGES) / statvfs(dir)?.f_frsize;
    let (moved, done) = move_extents(&file, &donor, (0, 0, blocks));
    done?;
    ensure!(moved == blocks, "{moved} of {blocks} blocks were moved");
    // The donor's new blocks may count as unwritten; the content on disk decides.
    let now = on_disk(&dir.join("donor"))?;
    ensure!(now[..] != old[..], "the donor kept its content");
    Ok(wrong(&donor, &now)? + wrong(&file, &taker)?)
}

/// Returns the content of a file, read past the page cache.
fn on_disk(path: &Path) -> Result<MmapMut> {
    let file = open(path, OFlags::RDONLY | OFlags::DIRECT)?;
    let mut bytes = MmapMut::map_anon(PAGES * PAGE)?;
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
