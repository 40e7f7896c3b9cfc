// SPDX-License-Identifier: GPL-2.0-only

//! Operations on a whole filesystem that change no file: its names, its journal, and blocks that
//! belong to no file or are behind the end of one.

use std::{fs::File, io::Write as _, os::unix::fs::MetadataExt as _, path::Path};

use anyhow::{Result, ensure};
use rustix::fs::OFlags;

use super::{
    content,
    kept::{Kept, run, xfs_io},
};
use crate::ioctl;

const PAGES: usize = 64;
/// Bytes of a file that grows, so that XFS allocates blocks behind its end.
const GROWN: usize = 1 << 20;

pub(super) fn whole(dir: &Path, fstype: &str) -> Result<u64> {
    let kept = Kept::create(dir, "whole", PAGES)?;
    let sum = match fstype {
        "xfs" => on_xfs(dir, &kept)?,
        _ => on_ext4(dir, &kept)?,
    };
    Ok(sum + kept.stays("FITRIM", || trim(dir))?)
}

fn on_ext4(dir: &Path, kept: &Kept) -> Result<u64> {
    let top = File::open(dir)?;
    let mut sum = kept.stays("FS_IOC_SETFSLABEL", || Ok(ioctl::set_label(&top)?))?;
    sum += kept.stays("EXT4_IOC_SETFSUUID", || Ok(ioctl::set_uuid(&top)?))?;
    sum += kept.stays("EXT4_IOC_SET_TUNE_SB_PARAM", || Ok(ioctl::tune(&top)?))?;
    for zeros in [false, true] {
        sum += kept.stays("EXT4_IOC_CHECKPOINT", || {
            Ok(ioctl::checkpoint(&top, zeros)?)
        })?;
    }
    Ok(sum)
}

fn on_xfs(dir: &Path, kept: &Kept) -> Result<u64> {
    let mut sum = kept.stays("FS_IOC_SETFSLABEL", || {
        xfs_io(dir, "label -s whole").map(drop)
    })?;
    sum += kept.stays("XFS_IOC_SET_RESBLKS", || {
        xfs_io(dir, "resblks 1000").map(drop)
    })?;
    let more = Kept::create(dir, "whole.grown", PAGES)?;
    let mut writer = more.writer(OFlags::APPEND)?;
    let new = content(2, GROWN);
    new.chunks(PAGES << 10)
        .try_for_each(|part| writer.write_all(part))?;
    let more = Kept {
        want: [more.want.as_slice(), &new].concat(),
        ..more
    };
    sum += more.stays("XFS_IOC_FREE_EOFBLOCKS", || {
        let blocks = || more.file.metadata().map(|data| data.blocks());
        let before = blocks()?;
        let dir = dir.to_string_lossy();
        run("xfs_spaceman", &["-c", "prealloc -s", &dir], &[])?;
        let now = blocks()?;
        ensure!(now < before, "the file has {now} blocks, and had {before}");
        Ok(())
    })?;
    Ok(sum)
}

/// Discards blocks that no file has.
fn trim(dir: &Path) -> Result<()> {
    let said = run("fstrim", &["-v", &dir.to_string_lossy()], &[])?;
    ensure!(!said.contains(" (0) "), "nothing was discarded: {said}");
    Ok(())
}
