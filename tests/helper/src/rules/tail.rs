// SPDX-License-Identifier: GPL-2.0-only

//! Files end inside a folio, as they do where a block is larger than a page, and have no blocks.
//! Content of a folio beyond the end becomes visible when they are extended.
//!
//! Frames must keep their content for a meaningful test (`init_on_alloc=0` on the kernel's command
//! line).

use std::{fs, fs::File, io, os::unix::fs::FileExt as _, path::Path};

use anyhow::Result;
use ddhelper::churn::PAGE;

use super::{at, content, create, give_away, read, stay, wrong};

/// Pages of the largest block.
const BLOCK: usize = 4;
const FILES: u64 = 16;

pub(super) fn tail(dir: &Path) -> Result<u64> {
    // Frames that were freed on a processor are the first to be used there.
    stay()?;
    let files = (0..FILES).map(|number| create(dir, &format!("tail.{number}")));
    let files: Vec<File> = files.collect::<io::Result<_>>()?;
    for file in &files {
        // The end of the second page is also beyond that of the file.
        file.set_len(at(2) - 100)?;
        give_away(file)?;
    }
    litter(dir)?;
    let mut sum = 0;
    for file in &files {
        read(file)?;
        file.set_len(at(BLOCK))?;
        sum += wrong(file, &[0; BLOCK * PAGE])?;
    }
    Ok(sum)
}

/// Fills frames with non-zero content and frees them.
fn litter(dir: &Path) -> Result<()> {
    let litter = content(1, BLOCK * PAGE);
    let file = create(dir, "litter")?;
    for number in 0..4 * FILES {
        file.write_all_at(&litter, number * at(BLOCK))?;
    }
    drop(file);
    Ok(fs::remove_file(dir.join("litter"))?)
}
