// SPDX-License-Identifier: GPL-2.0-only

//! A disk fills blocks with zeros by itself, which ext4 offers as a mode of fallocate.

use std::path::Path;

use anyhow::{Context as _, Result};
use ddhelper::churn::PAGE;
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use super::{at, give_away, kept::Kept};

const PAGES: usize = 64;
/// First page of the range, and number of its pages.
const FIRST: usize = 16;
const COUNT: usize = 8;
/// `FALLOC_FL_WRITE_ZEROES`.
const WRITE_ZEROES: FallocateFlags = FallocateFlags::from_bits_retain(0x80);

pub(super) fn zeroes(dir: &Path) -> Result<u64> {
    let mut kept = Kept::create(dir, "zeroes", PAGES)?;
    let writer = kept.writer(OFlags::empty())?;
    give_away(&kept.file)?;
    fallocate(&writer, WRITE_ZEROES, at(FIRST), at(COUNT)).context("cannot write zeros")?;
    kept.want[FIRST * PAGE..][..COUNT * PAGE].fill(0);
    let others = (PAGES - COUNT) as u64;
    kept.look("zeros were written", others / 2..=others)
}
