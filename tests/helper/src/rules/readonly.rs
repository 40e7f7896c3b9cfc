// SPDX-License-Identifier: GPL-2.0-only

//! A filesystem becomes read-only and writable again, also if it was mounted read-only. XFS then
//! frees the blocks that copies on write had reserved when it was shut down.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::Path,
};

use anyhow::{Context as _, Result};
use rustix::{
    fs::{OFlags, ioctl_ficlone},
    mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount},
};

use super::{
    content,
    kept::{Kept, xfs_io},
    let_go,
};

const PAGES: usize = 64;

pub(super) fn readonly(dir: &Path, device: &str, fstype: &str) -> Result<u64> {
    let kept = Kept::create(dir, "readonly", PAGES)?;
    let mut sum = kept.stays("a remount read-only", || become_writable(dir, false))?;
    sum += kept.stays("a remount read-write", || become_writable(dir, true))?;
    let path = kept.path.clone();
    let shared = dir.join("readonly.shared");
    if fstype == "xfs" {
        ioctl_ficlone(File::create(&shared)?, &kept.file)?;
    } else {
        fs::copy(&path, &shared)?;
    }
    drop(kept);
    // One page is written elsewhere, with more blocks reserved around it.
    let kept = Kept::open(&shared, PAGES)?;
    let new = content(2, 4096);
    kept.writer(OFlags::empty())?.write_all_at(&new, 0)?;
    let_go(&kept.file)?;
    drop(kept);
    if fstype == "xfs" {
        xfs_io(dir, "shutdown -f")?;
    }

    unmount(dir, UnmountFlags::empty()).context("cannot unmount")?;
    let flags = MountFlags::NOATIME | MountFlags::RDONLY;
    mount(device, dir, fstype, flags, None).context("cannot mount")?;
    let kept = Kept::open(&path, PAGES)?;
    let mut other = Kept::open(&shared, PAGES)?;
    other.want[..new.len()].copy_from_slice(&new);
    sum += other.stays("a mount read-only", || Ok(()))?;
    sum += kept.stays("the first remount", || {
        super::give_away(&other.file)?;
        become_writable(dir, true)
    })?;
    Ok(sum + other.look("the first remount", other.most())?)
}

fn become_writable(dir: &Path, yes: bool) -> Result<()> {
    let flags = match yes {
        true => MountFlags::NOATIME,
        false => MountFlags::NOATIME | MountFlags::RDONLY,
    };
    mount_remount(dir, flags, c"").context("cannot remount")
}
