// SPDX-License-Identifier: GPL-2.0-only

//! A swap file has the pages that the kernel swapped out, and not its earlier content.

use std::{
    ffi::CString,
    io,
    os::unix::{ffi::OsStrExt as _, fs::FileExt as _},
    path::Path,
    process::Command,
};

use anyhow::{Result, ensure};
use memmap2::MmapMut;
use rustix::fs::OFlags;

use super::{content, create, give_away, wrong};
use crate::files::{Aligned, open};

const LEN: usize = 1 << 20;
/// Size of the memory that is swapped out.
const AWAY: usize = 512 << 10;

pub(super) fn swap(dir: &Path) -> Result<u64> {
    let path = dir.join("swap");
    let file = create(dir, "swap")?;
    file.write_all_at(&content(1, LEN), 0)?;
    file.sync_all()?;
    let made = Command::new("mkswap").arg(&path).output()?;
    ensure!(made.status.success(), "mkswap: {made:?}");
    give_away(&file)?;
    let before = direct(&path)?;

    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the name ends in a zero byte.
    succeeded(unsafe { libc::swapon(name.as_ptr(), 0) })?;
    let swapped = push_out();
    // SAFETY: as above.
    succeeded(unsafe { libc::swapoff(name.as_ptr()) })?;
    swapped?;

    let now = direct(&path)?;
    ensure!(now != before, "nothing was swapped out");
    wrong(&file, &now)
}

/// Makes the kernel swap some memory out.
fn push_out() -> io::Result<()> {
    let mut memory = MmapMut::map_anon(AWAY)?;
    memory.copy_from_slice(&content(2, AWAY));
    // SAFETY: the memory is a mapping of its own.
    succeeded(unsafe { libc::madvise(memory.as_mut_ptr().cast(), AWAY, libc::MADV_PAGEOUT) })
}

/// Returns the content of a file on the disk.
fn direct(path: &Path) -> Result<Vec<u8>> {
    let file = open(path, OFlags::RDONLY | OFlags::DIRECT)?;
    let mut room = Aligned::new();
    let mut bytes = Vec::new();
    while bytes.len() < LEN {
        let got = file.read_at(room.buffer(), bytes.len() as u64)?;
        ensure!(got > 0, "the file ends too early, at {}", bytes.len());
        bytes.extend_from_slice(&room.buffer()[..got]);
    }
    Ok(bytes)
}

fn succeeded(result: i32) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
