// SPDX-License-Identifier: GPL-2.0-only

//! A block of a file is overwritten while its filesystem is not mounted.

use std::{fs::File, os::unix::fs::FileExt as _, path::Path};

use anyhow::{Context as _, Result};
use ddhelper::churn::PAGE;
use rustix::{
    fs::statvfs,
    mount::{MountFlags, UnmountFlags, mount, unmount as detach},
};

use super::{content, create, give_away, wrong};
use crate::run::overwrite;

const PAGES: usize = 16;
/// The block, and the byte it is filled with.
const BLOCK: u64 = 3;
const BYTE: u8 = 0x5a;

pub(super) fn unmount(dir: &Path, device: &str, fstype: &str) -> Result<u64> {
    let mut want = content(1, PAGES * PAGE);
    let file = create(dir, "unmount")?;
    file.write_all_at(&want, 0)?;
    give_away(&file)?;
    drop(file);
    let block = usize::try_from(statvfs(dir)?.f_frsize)?;
    detach(dir, UnmountFlags::empty()).context("cannot unmount")?;
    overwrite(device, "/unmount", BLOCK, BYTE)?;
    mount(device, dir, fstype, MountFlags::NOATIME, None).context("cannot mount")?;
    // The block is below the file's length.
    want[BLOCK as usize * block..][..block].fill(BYTE);
    wrong(&File::open(dir.join("unmount"))?, &want)
}
