// SPDX-License-Identifier: GPL-2.0-only

//! Pages are read and dropped repeatedly while a direct write is under way. Content that is read
//! before the write has arrived on the disk is old as soon as it has.

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::{Result, anyhow};
use ddhelper::churn::{PAGE, fill};
use memmap2::MmapMut;
use rustix::fs::{Advice, OFlags, fadvise};

use super::{at, content, create, give_away, wrong};
use crate::files::open;

/// Enough pages for a write that takes some time.
const PAGES: usize = 512;
/// The last pages, which arrive last.
const LAST: usize = 4;
const TIMES: u64 = 16;

pub(super) fn direct(dir: &Path) -> Result<u64> {
    let file = create(dir, "direct")?;
    file.write_all_at(&content(0, PAGES * PAGE), 0)?;
    give_away(&file)?;
    let writer = open(dir.join("direct"), OFlags::WRONLY | OFlags::DIRECT)?;
    let reader = File::open(dir.join("direct"))?;
    fadvise(&reader, 0, None, Advice::Random)?;
    // The buffer has whole pages, as direct writes need it.
    let mut want = MmapMut::map_anon(PAGES * PAGE)?;
    let mut sum = 0;
    for time in 1..=TIMES {
        fill(time, 0, &mut want);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let reading = scope.spawn(|| read_and_drop(&reader, &done));
            let written = writer.write_all_at(&want, 0);
            done.store(true, Ordering::Relaxed);
            reading
                .join()
                .map_err(|_| anyhow!("the reader panicked"))??;
            anyhow::Ok(written?)
        })?;
        sum += wrong(&file, &want)?;
    }
    Ok(sum)
}

fn read_and_drop(file: &File, done: &AtomicBool) -> Result<()> {
    let mut bytes = [0; LAST * PAGE];
    let offset = at(PAGES - LAST);
    while !done.load(Ordering::Relaxed) {
        file.read_exact_at(&mut bytes, offset)?;
        fadvise(file, offset, None, Advice::DontNeed)?;
    }
    Ok(())
}
