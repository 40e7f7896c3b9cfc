// SPDX-License-Identifier: GPL-2.0-only

//! Frames of a file's pages are reported as broken. The kernel drops these pages, which must not
//! arrive at the host, and reads them from the disk again.

use std::path::Path;

use anyhow::Result;
use ddhelper::churn::PAGE;
use memmap2::{Advice, Mmap};

use super::{kept::Kept, let_go};

const PAGES: usize = 64;
/// Number of broken pages. Their frames are lost for as long as the kernel runs.
const BROKEN: usize = 8;

pub(super) fn poison(dir: &Path) -> Result<u64> {
    let kept = Kept::create(dir, "poison", PAGES)?;
    let others = (PAGES - BROKEN) as u64;
    kept.after("frames broke", others / 2..=others, || {
        // SAFETY: no other task changes the file.
        let map = unsafe { Mmap::map(&kept.file)? };
        map.advise(Advice::PopulateRead)?;
        for page in 0..BROKEN {
            map.advise_range(Advice::HwPoison, page * PAGE, PAGE)?;
        }
        drop(map);
        let_go(&kept.file)
    })
}
