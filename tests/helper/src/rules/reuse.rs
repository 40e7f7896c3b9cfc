// SPDX-License-Identifier: GPL-2.0

//! A file is deleted while the host has its pages, and another one gets its inode:
//! all of it is a hole.

use std::{fs, os::unix::fs::FileExt as _, os::unix::fs::MetadataExt as _, path::Path};

use anyhow::{Result, bail};
use ddhelper::churn::PAGE;

use super::{at, content, create, give_away, wrong};

const PAGES: usize = 64;
/// Files after which the filesystem may be said not to use the inode again.
const MOST: u32 = 4000;

pub(super) fn reuse(dir: &Path) -> Result<u64> {
    let old = create(dir, "reuse")?;
    old.write_all_at(&content(1, PAGES * PAGE), 0)?;
    give_away(&old)?;
    let inode = old.metadata()?.ino();
    drop(old);
    fs::remove_file(dir.join("reuse"))?;

    // Those that get others are kept until the end. XFS frees inodes a while later.
    let others = dir.join("reuse.others");
    fs::create_dir(&others)?;
    for number in 0..MOST {
        let new = create(&others, &number.to_string())?;
        if new.metadata()?.ino() == inode {
            new.set_len(at(PAGES))?;
            let wrong = wrong(&new, &[0; PAGES * PAGE]);
            fs::remove_dir_all(&others)?;
            return wrong;
        }
    }
    bail!("none of {MOST} files got inode {inode}")
}
