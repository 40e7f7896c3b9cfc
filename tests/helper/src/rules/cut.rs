// SPDX-License-Identifier: GPL-2.0-only

//! A large folio that a write has filled in part, with blocks smaller than a page, is split. Its
//! first page is not up to date, and the information that blocks of it were written is lost. It is
//! read like a new one.

use std::{os::unix::fs::FileExt as _, path::Path};

use anyhow::Result;
use ddhelper::churn::{PAGE, fill};

use super::{content, create, give_away, wrong};

const TIMES: u64 = 16;

pub(super) fn cut(dir: &Path) -> Result<u64> {
    let file = create(dir, "cut")?;
    let mut sum = 0;
    for time in 0..TIMES {
        let mut want = content(2 * time, 4 * PAGE);
        file.write_all_at(&want, 0)?;
        give_away(&file)?;
        // The range needs a folio of two pages, and leaves out its beginning.
        let (from, to) = (PAGE / 2, 7 * PAGE / 2);
        fill(2 * time + 1, from as u64, &mut want[from..to]);
        file.write_all_at(&want[from..to], from as u64)?;
        file.sync_data()?;
        want.truncate(3 * PAGE / 2);
        file.set_len(want.len() as u64)?;
        sum += wrong(&file, &want)?;
    }
    Ok(sum)
}
