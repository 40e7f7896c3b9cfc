// SPDX-License-Identifier: GPL-2.0-only

//! Holes are punched over pages that have left the page cache and have not arrived at the host yet:
//! the task that reclaims them is interrupted in between.

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use ddhelper::churn::PAGE;
use memmap2::Mmap;
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};

use super::{at, content, create, give_away, stay, wrong};

const PAGES: usize = 256;
const TIMES: u64 = 8;
/// Pause between two looks, in which other tasks run.
const PAUSE: Duration = Duration::from_micros(100);

pub(super) fn overtake(dir: &Path, cgroup: &str) -> Result<u64> {
    stay()?;
    go_first()?;
    let file = create(dir, "overtake")?;
    (0..TIMES).try_fold(0, |sum, time| Ok(sum + once(&file, cgroup, time)?))
}

fn once(file: &File, cgroup: &str, seed: u64) -> Result<u64> {
    let mut want = content(seed, PAGES * PAGE);
    file.write_all_at(&want, 0)?;
    give_away(file)?;
    // Files are read page by page, because more of small folios are freed in one batch.
    fadvise(file, 0, None, Advice::Random)?;
    let mut page = [0; PAGE];
    (0..PAGES).try_for_each(|number| file.read_exact_at(&mut page, at(number)))?;

    // This task runs on the same processor with the lowest priority.
    let line = format!(
        "echo {} > /sys/fs/cgroup/{cgroup}/memory.reclaim",
        PAGES * PAGE
    );
    let mut reclaim = Command::new("chrt")
        .args(["--idle", "0", "sh", "-c", &line])
        // It fails if less than that can be reclaimed.
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run chrt")?;
    // SAFETY: no byte of the mapping is looked at.
    let map = unsafe { Mmap::map(file)? };
    let mut gone = Vec::new();
    while gone.is_empty() && reclaim.try_wait()?.is_none() {
        thread::sleep(PAUSE);
        gone = absent(&map)?;
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for number in gone {
        fallocate(file, flags, at(number), PAGE as u64)?;
        want[number * PAGE..][..PAGE].fill(0);
    }
    reclaim.wait()?;
    wrong(file, &want)
}

/// Returns the pages of a file that are not in the page cache.
fn absent(map: &Mmap) -> Result<Vec<usize>> {
    let mut present = [0_u8; PAGES];
    // SAFETY: the mapping has as many pages as the buffer can hold.
    let result = unsafe {
        libc::mincore(
            map.as_ptr().cast_mut().cast(),
            map.len(),
            present.as_mut_ptr(),
        )
    };
    if result != 0 {
        return Err(std::io::Error::last_os_error()).context("mincore");
    }
    Ok((0..PAGES).filter(|page| present[*page] & 1 == 0).collect())
}

/// Gives this thread the highest priority.
fn go_first() -> Result<()> {
    let first = libc::sched_param { sched_priority: 1 };
    // SAFETY: reads the parameters.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) } != 0 {
        return Err(std::io::Error::last_os_error()).context("sched_setscheduler");
    }
    Ok(())
}
