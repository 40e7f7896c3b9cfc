// SPDX-License-Identifier: GPL-2.0-only

//! A disk replaces blocks atomically, which ext4 offers as writes with `RWF_ATOMIC`.

use std::{io::IoSlice, path::Path};

use anyhow::{Context as _, Result, ensure};
use ddhelper::churn::{PAGE, fill};
use memmap2::MmapMut;
use rustix::{fs::OFlags, io::pwritev2};

use super::{at, kept::Kept};
use crate::torture::ATOMIC;

const PAGES: usize = 64;
/// Number of pages that are written, every third one.
const WRITTEN: usize = 16;

pub(super) fn atomic(dir: &Path) -> Result<u64> {
    let mut kept = Kept::create(dir, "atomic", PAGES)?;
    let writer = kept.writer(OFlags::DIRECT)?;
    super::give_away(&kept.file)?;
    let mut page = MmapMut::map_anon(PAGE)?;
    for number in (0..WRITTEN).map(|number| 3 * number) {
        fill(2, at(number), &mut page);
        let done = pwritev2(&writer, &[IoSlice::new(&page)], at(number), ATOMIC)
            .context("cannot write atomically")?;
        ensure!(done == PAGE, "{done} bytes were written");
        kept.want[number * PAGE..][..PAGE].copy_from_slice(&page);
    }
    let others = (PAGES - WRITTEN) as u64;
    kept.look("atomic writes", others / 2..=others)
}
