// SPDX-License-Identifier: GPL-2.0-only

//! A file without blocks, whose zeros the host has, moves to XFS's realtime device and is
//! written past the page cache.

use std::{os::unix::fs::FileExt as _, path::Path};

use anyhow::{Result, ensure};
use ddhelper::churn::{PAGE, fill};
use memmap2::MmapMut;
use rustix::fs::OFlags;

use super::{
    at, create, give_away,
    kept::{Kept, xfs_io},
    wrong,
};

const PAGES: usize = 64;

pub(super) fn realtime(dir: &Path) -> Result<u64> {
    create(dir, "realtime")?.set_len(at(PAGES))?;
    let mut kept = Kept::open(&dir.join("realtime"), PAGES)?;
    kept.want.fill(0);
    let mut sum = kept.stays("chattr +r", || xfs_io(&kept.path, "chattr +r").map(drop))?;

    give_away(&kept.file)?;
    let mut new = MmapMut::map_anon(PAGES * PAGE)?;
    fill(2, 0, &mut new);
    kept.writer(OFlags::DIRECT)?.write_all_at(&new, 0)?;
    sum += wrong(&kept.file, &new)?;
    let back = xfs_io(&kept.path, "chattr -r");
    ensure!(back.is_err(), "a file with blocks left its device");
    Ok(sum)
}
