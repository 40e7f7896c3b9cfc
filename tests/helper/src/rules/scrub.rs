// SPDX-License-Identifier: GPL-2.0-only

//! XFS checks a file while it is in use, and builds the list of its extents again from the owners
//! of all blocks. It drops the page cache of the file first, and the host must do the same.

use std::path::Path;

use anyhow::{Result, ensure};

use super::kept::{Kept, xfs_io};

const PAGES: usize = 64;

pub(super) fn scrub(dir: &Path) -> Result<u64> {
    let kept = Kept::create(dir, "scrub", PAGES)?;
    let mut sum = 0;
    for command in ["scrub inode", "scrub bmapbtd", "repair -R inode"] {
        sum += kept.stays(command, || quietly(&kept.path, command))?;
    }
    sum += kept.stays("scrubv inode", || {
        let said = xfs_io(&kept.path, "scrubv inode")?;
        ensure!(said.contains("data block map: OK"), "scrubv: {said}");
        Ok(())
    })?;
    let command = "repair -R bmapbtd";
    Ok(sum + kept.leaves(command, || quietly(&kept.path, command))?)
}

fn quietly(path: &Path, command: &str) -> Result<()> {
    let said = xfs_io(path, command)?;
    ensure!(said.is_empty(), "{command}: {said}");
    Ok(())
}
