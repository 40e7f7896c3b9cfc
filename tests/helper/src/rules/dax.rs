// SPDX-License-Identifier: GPL-2.0-only

//! A file that was written past the page cache, because its device is memory, is not read from the
//! host with its old content.

use std::{fs, os::unix::fs::FileExt as _, path::Path};

use anyhow::{Result, ensure};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use super::{content, create, give_away, kept::xfs_io, wrong};

const LEN: usize = 1 << 20;

/// Tests a file on XFS's realtime device, which offers DAX.
pub(super) fn dax(dir: &Path) -> Result<u64> {
    let path = dir.join("dax");
    let file = create(dir, "dax")?;
    xfs_io(&path, "chattr +r")?;
    file.write_all_at(&content(1, LEN), 0)?;
    file.sync_all()?;
    ensure!(
        !is_dax(&path)?,
        "the file is DAX before its attribute is set"
    );
    give_away(&file)?;
    drop(file);

    xfs_io(&path, "chattr +x")?;
    reload(&path, true)?;
    let file = fs::OpenOptions::new().read(true).write(true).open(&path)?;
    file.write_all_at(&content(2, LEN), 0)?;
    file.sync_all()?;
    drop(file);

    xfs_io(&path, "chattr -x")?;
    reload(&path, false)?;
    wrong(&fs::File::open(&path)?, &content(2, LEN))
}

/// Makes the inode leave memory, because it becomes DAX or not when it is loaded.
fn reload(path: &Path, wanted: bool) -> Result<()> {
    for _ in 0..100 {
        fs::write("/proc/sys/vm/drop_caches", "2")?;
        if is_dax(path)? == wanted {
            return Ok(());
        }
    }
    anyhow::bail!(
        "{} did not become as wanted (DAX: {wanted})",
        path.display()
    );
}

fn is_dax(path: &Path) -> Result<bool> {
    let stat = statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS)?;
    Ok(stat.stx_attributes.contains(StatxAttributes::DAX))
}
