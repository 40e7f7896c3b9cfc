// SPDX-License-Identifier: GPL-2.0-only

//! The kernel writes quotas to a file past the page cache, while the host has its page. XFS has no
//! such file, and switches quotas on and off beside others.

use std::{
    ffi::CString,
    fs::{self, File},
    io,
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};

use super::{
    at, give_away,
    kept::{Kept, hits, run},
    read, remount, wrong,
};
use crate::swap_file::on_disk;

const PAGES: usize = 64;
/// `QFMT_VFS_V1`.
const FORMAT: i32 = 4;
/// Bytes of a block of the quota file.
const BLOCK: usize = 1024;
/// The head of such a file: magic number, version, two times, flags, and the number of blocks, of
/// which the second is the empty root of a tree.
const HEAD: [u32; 6] = [0xd9c0_1f11, 1, 604_800, 604_800, 0, 2];

pub(super) fn quota(dir: &Path, device: &str, fstype: &str) -> Result<u64> {
    match fstype {
        "xfs" => on_xfs(dir, device),
        _ => on_ext4(dir, device),
    }
}

fn on_ext4(dir: &Path, device: &str) -> Result<u64> {
    let path = dir.join("aquota.user");
    let mut head: Vec<u8> = HEAD.into_iter().flat_map(u32::to_le_bytes).collect();
    head.resize(2 * BLOCK, 0);
    fs::write(&path, head)?;
    mount_remount(dir, MountFlags::NOATIME, c"usrquota").context("cannot remount")?;
    let file = File::open(&path)?;
    // This comes first: after a page was forgotten, the host may lose its next copy, too.
    let mut sum = read_in_use(&file, || control(device, libc::Q_QUOTAON, &path))?;
    control(device, libc::Q_QUOTAOFF, &path)?;
    for (command, name) in [(libc::Q_SYNC, "synced"), (libc::Q_QUOTAOFF, "off")] {
        give_away(&file)?;
        let before = on_disk(&path)?;
        control(device, libc::Q_QUOTAON, &path)?;
        // The owner's new file is written down.
        fs::write(dir.join(format!("quota.{name}")), name)?;
        control(device, command, &path)?;
        let now = on_disk(&path)?;
        ensure!(now != before, "no quota was written");
        sum += wrong(&file, &now)?;
        if command == libc::Q_SYNC {
            control(device, libc::Q_QUOTAOFF, &path)?;
        }
    }
    Ok(sum)
}

/// Reads a quota file whose page the host has from the time before it was used. Returns the number
/// of bytes that came from the host.
fn read_in_use(file: &File, on: impl FnOnce() -> Result<()>) -> Result<u64> {
    give_away(file)?;
    on()?;
    let before = hits()?;
    read(file)?;
    Ok((hits()? - before) * at(1))
}

fn control(device: &str, command: i32, file: &Path) -> Result<()> {
    let device = CString::new(device)?;
    let name = CString::new(file.as_os_str().as_encoded_bytes())?;
    let command = libc::QCMD(command, libc::USRQUOTA);
    // SAFETY: both names end in a zero byte, and the kernel reads the second one at most.
    let done = unsafe {
        libc::quotactl(
            command,
            device.as_ptr(),
            FORMAT,
            name.as_ptr().cast_mut().cast(),
        )
    };
    ensure!(done == 0, io::Error::last_os_error());
    Ok(())
}

fn on_xfs(dir: &Path, device: &str) -> Result<u64> {
    unmount(dir, UnmountFlags::empty()).context("cannot unmount")?;
    mount(device, dir, "xfs", MountFlags::NOATIME, c"uquota").context("cannot mount")?;
    let kept = Kept::create(dir, "quota", PAGES)?;
    let mut sum = 0;
    for command in ["disable -u", "enable -u", "off -u"] {
        sum += kept.stays(command, || {
            let dir = dir.to_string_lossy();
            run("xfs_quota", &["-x", "-c", command, &dir], &[]).map(drop)
        })?;
    }
    drop(kept);
    remount(dir, device, "xfs")?;
    Ok(sum)
}
