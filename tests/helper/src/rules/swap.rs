// SPDX-License-Identifier: GPL-2.0-only

//! A swap file has the pages that the kernel swapped out, and not its earlier content.

use std::{os::unix::fs::FileExt as _, path::Path};

use anyhow::{Result, ensure};

use super::{content, create, give_away, wrong};
use crate::swap_file::{SwapFile, on_disk, push_out, sign};

const LEN: usize = 1 << 20;
/// Size of the memory that is swapped out.
const AWAY: usize = 512 << 10;

pub(super) fn swap(dir: &Path) -> Result<u64> {
    let path = dir.join("swap");
    let file = create(dir, "swap")?;
    file.write_all_at(&content(1, LEN), 0)?;
    file.sync_all()?;
    sign(&path)?;
    give_away(&file)?;
    let before = on_disk(&path)?;

    let swap_file = SwapFile::start(&path)?;
    let swapped = push_out(&content(2, AWAY));
    swap_file.end()?;
    swapped?;

    let now = on_disk(&path)?;
    ensure!(now.len() == LEN, "the file has {} bytes", now.len());
    ensure!(now != before, "nothing was swapped out");
    wrong(&file, &now)
}
