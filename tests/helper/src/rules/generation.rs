// SPDX-License-Identifier: GPL-2.0-only

//! A file's owner sets another generation, changes the file, and restores the old generation, under
//! which the host has its old pages.

use std::{os::unix::fs::FileExt as _, path::Path};

use anyhow::{Context as _, Result};
use ddhelper::churn::PAGE;

use super::{content, create, give_away, let_go, wrong};
use crate::ioctl::set_generation;

const PAGES: usize = 64;

pub(super) fn generation(dir: &Path) -> Result<u64> {
    let file = create(dir, "generation")?;
    set_generation(&file, 1).context("cannot set a generation")?;
    file.write_all_at(&content(1, PAGES * PAGE), 0)?;
    give_away(&file)?;
    set_generation(&file, 2)?;
    let want = content(2, PAGES * PAGE);
    file.write_all_at(&want, 0)?;
    let_go(&file)?;
    set_generation(&file, 1)?;
    wrong(&file, &want)
}
