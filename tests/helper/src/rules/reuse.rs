// SPDX-License-Identifier: GPL-2.0-only

//! A file is deleted while the host has its pages, and a new file that is a hole gets its inode.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use ddhelper::churn::PAGE;
use rustix::fs::statvfs;

use super::{at, content, create, give_away, wrong};

const PAGES: usize = 64;
/// Time in which a filesystem must use the inode again.
const PATIENCE: Duration = Duration::from_secs(120);
/// Number of new files between two looks at the clock.
const BATCH: u32 = 256;

pub(super) fn reuse(dir: &Path) -> Result<u64> {
    let old = create(dir, "reuse")?;
    old.write_all_at(&content(1, PAGES * PAGE), 0)?;
    give_away(&old)?;
    let inode = old.metadata()?.ino();
    drop(old);
    fs::remove_file(dir.join("reuse"))?;

    let mut names = Vec::new();
    let new = file_with_inode(dir, inode, &mut names);
    let wrong = new.and_then(|file| {
        file.set_len(at(PAGES))?;
        wrong(&file, &[0; PAGES * PAGE])
    });
    for name in names {
        fs::remove_file(dir.join(name))?;
    }
    wrong
}

/// Creates files until one of them has this inode number.
///
/// The files stay until the end, so that each of them gets another inode. They are in the directory
/// of the deleted file, because XFS takes a file's inode from its directory's allocation group, and
/// assigns the next group to every new directory.
fn file_with_inode(dir: &Path, inode: u64, names: &mut Vec<String>) -> Result<File> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        // XFS frees the inodes of deleted files in the background; this starts it.
        statvfs(dir)?;
        for _ in 0..BATCH {
            let name = format!("reuse.{}", names.len());
            let new = create(dir, &name)?;
            names.push(name);
            if new.metadata()?.ino() == inode {
                return Ok(new);
            }
        }
    }
    bail!(
        "none of {} new files got inode {inode} within {} s",
        names.len(),
        PATIENCE.as_secs()
    )
}
