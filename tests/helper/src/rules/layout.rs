// SPDX-License-Identifier: GPL-2.0-only

//! Blocks of a file are described in another way, and memory about them is dropped. The blocks
//! stay, and the host's pages too.

use std::{fs::File, os::unix::fs::FileExt as _, path::Path};

use anyhow::{Result, ensure};
use ddhelper::churn::PAGE;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use super::{at, content, create, give_away, kept::Kept, let_go, wrong};
use crate::{ioctl, swap_file::on_disk};

/// The pages of the blocks that an inode can name without extents, if blocks are small.
const PAGES: usize = 3;
/// `FS_EXTENT_FL`.
const EXTENTS: IFlags = IFlags::from_bits_retain(0x80000);

pub(super) fn layout(dir: &Path) -> Result<u64> {
    let kept = Kept::create(dir, "layout", PAGES)?;
    let file = &kept.file;
    let mut sum = kept.stays("chattr -e", || extents(file, false))?;
    sum += kept.stays("chattr +e", || extents(file, true))?;
    extents(file, false)?;
    sum += kept.stays("EXT4_IOC_MIGRATE", || {
        ioctl::migrate(file)?;
        ensure!(ioctl_getflags(file)?.contains(EXTENTS));
        Ok(())
    })?;
    sum += kept.stays("EXT4_IOC_CLEAR_ES_CACHE", || {
        Ok(ioctl::clear_extent_cache(file)?)
    })?;
    sum += kept.stays("EXT4_IOC_PRECACHE_EXTENTS", || {
        Ok(ioctl::precache_extents(file)?)
    })?;
    Ok(sum + delayed(dir)?)
}

/// Makes the file have extents or not.
fn extents(file: &File, wanted: bool) -> Result<()> {
    let mut flags = ioctl_getflags(file)?;
    flags.set(EXTENTS, wanted);
    ioctl_setflags(file, flags)?;
    ensure!(ioctl_getflags(file)?.contains(EXTENTS) == wanted);
    Ok(())
}

/// Writes to a hole whose pages the host has, and allocates the blocks of the dirty pages.
fn delayed(dir: &Path) -> Result<u64> {
    let file = create(dir, "layout.delayed")?;
    file.set_len(at(PAGES))?;
    give_away(&file)?;
    let want = content(2, PAGES * PAGE);
    file.write_all_at(&want, 0)?;
    ioctl::allocate_delayed(&file)?;
    let_go(&file)?;
    let sum = wrong(&file, &want)?;
    let disk = on_disk(&dir.join("layout.delayed"))?;
    ensure!(disk == want, "the disk is wrong");
    Ok(sum)
}
