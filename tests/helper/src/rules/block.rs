// SPDX-License-Identifier: GPL-2.0-only

//! One block of each page is written while the host has the page, which leaves the page cache again
//! before it is read. With smaller blocks it is not up to date until then.

use std::{os::unix::fs::FileExt as _, path::Path};

use anyhow::Result;
use ddhelper::churn::PAGE;

use super::{at, content, create, give_away, let_go, wrong};

const PAGES: usize = 64;
/// Size of the smallest block.
const BLOCK: usize = 1024;

pub(super) fn block(dir: &Path) -> Result<u64> {
    let file = create(dir, "block")?;
    let mut want = content(1, PAGES * PAGE);
    file.write_all_at(&want, 0)?;
    give_away(&file)?;
    let new = content(2, BLOCK);
    for page in 0..PAGES {
        let inside = page * BLOCK % PAGE;
        want[page * PAGE + inside..][..BLOCK].copy_from_slice(&new);
        file.write_all_at(&new, at(page) + inside as u64)?;
    }
    let_go(&file)?;
    wrong(&file, &want)
}
