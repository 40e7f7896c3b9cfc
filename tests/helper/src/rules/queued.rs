// SPDX-License-Identifier: GPL-2.0-only

//! A page of a file is read and dropped repeatedly beside the first asynchronous direct write after
//! a mount. That write pauses between the kernel's invalidation of the page cache and its actual
//! begin, because the filesystem creates a work queue then.

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Result, anyhow};
use ddhelper::churn::{PAGE, fill};
use memmap2::MmapMut;
use rustix::fs::{Advice, OFlags, fadvise};

use super::{create, give_away, remount, wrong};
use crate::{files::open, queue::Queue};

const TIMES: u64 = 40;
/// Pause between two reads, in which the write can end with an empty page cache.
const PAUSE: Duration = Duration::from_millis(1);

pub(super) fn queued(dir: &Path, device: &str, fstype: &str) -> Result<u64> {
    let mut page = MmapMut::map_anon(PAGE)?;
    let file = create(dir, "queued")?;
    file.write_all_at(&page, 0)?;
    file.sync_data()?;
    drop(file);
    (1..=TIMES).try_fold(0, |sum, time| {
        remount(dir, device, fstype)?;
        fill(time, 0, &mut page);
        Ok(sum + once(dir, &page)?)
    })
}

fn once(dir: &Path, page: &[u8]) -> Result<u64> {
    let path = dir.join("queued");
    let reader = File::open(&path)?;
    fadvise(&reader, 0, None, Advice::Random)?;
    give_away(&reader)?;
    let writer = open(&path, OFlags::WRONLY | OFlags::DIRECT)?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| -> Result<()> {
        let reading = scope.spawn(|| read_and_drop(&reader, &done));
        let written = Queue::Aio.write(&writer, page, 0, page.len());
        done.store(true, Ordering::Relaxed);
        reading
            .join()
            .map_err(|_| anyhow!("the reader panicked"))??;
        written.map_err(Into::into)
    })?;
    wrong(&reader, page)
}

fn read_and_drop(file: &File, done: &AtomicBool) -> Result<()> {
    let mut bytes = [0; PAGE];
    while !done.load(Ordering::Relaxed) {
        file.read_exact_at(&mut bytes, 0)?;
        fadvise(file, 0, None, Advice::DontNeed)?;
        thread::sleep(PAUSE);
    }
    Ok(())
}
