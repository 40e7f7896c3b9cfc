// SPDX-License-Identifier: GPL-2.0-only

//! A file is truncated and extended, punched, and written past the page cache and through it, each
//! time while the host has all of its pages, and its pages then come from the host.

use std::{os::unix::fs::FileExt as _, path::Path};

use anyhow::Result;
use ddhelper::churn::{PAGE, fill};
use memmap2::MmapMut;
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use super::{at, content, create, give_away, let_go, wrong};
use crate::files::open;

const PAGES: usize = 64;
/// First page of the changed range, and number of its pages.
const FIRST: usize = 16;
const COUNT: usize = 8;

pub(super) fn change(dir: &Path) -> Result<u64> {
    let file = create(dir, "change")?;
    let mut want = content(1, PAGES * PAGE);
    file.write_all_at(&want, 0)?;

    give_away(&file)?;
    let punched = FIRST * PAGE..(FIRST + COUNT) * PAGE;
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, how, at(FIRST), at(COUNT))?;
    want[punched.clone()].fill(0);
    let mut sum = wrong(&file, &want)?;

    give_away(&file)?;
    let writer = open(dir.join("change"), OFlags::WRONLY | OFlags::DIRECT)?;
    let mut new = MmapMut::map_anon(COUNT * PAGE)?;
    fill(2, 0, &mut new);
    writer.write_all_at(&new, at(FIRST))?;
    want[punched.clone()].copy_from_slice(&new);
    sum += wrong(&file, &want)?;

    give_away(&file)?;
    let new = content(3, COUNT * PAGE);
    file.write_all_at(&new, at(FIRST))?;
    let_go(&file)?;
    want[punched].copy_from_slice(&new);
    sum += wrong(&file, &want)?;

    give_away(&file)?;
    file.set_len(at(PAGES / 2))?;
    file.set_len(at(PAGES))?;
    want[PAGES / 2 * PAGE..].fill(0);
    sum += wrong(&file, &want)?;

    give_away(&file)?;
    Ok(sum + wrong(&file, &want)?)
}
