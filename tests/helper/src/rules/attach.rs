// SPDX-License-Identifier: GPL-2.0-only

//! The module is loaded while a hole is punched, which waits for pages that are still being read.
//! Pages behind these, which were read before, can be reclaimed in the meantime.
//!
//! The filesystem is on a device of the device mapper with the name "slow".

use std::{
    fs::File,
    num::NonZero,
    os::unix::fs::FileExt as _,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use ddhelper::churn::PAGE;
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};

use super::{at, content, create, let_go, read};

/// Time that the device takes for a read.
const DELAY: Duration = Duration::from_secs(15);
/// Number of pages that are read last, one by one. They are more than truncation processes
/// together, because it holds references to those.
const SLOW: usize = 48;
/// The first of the pages that were read before them, and the end of the file.
const READY: usize = 64;
const PAGES: usize = 96;
const PAUSE: Duration = Duration::from_millis(100);

pub(super) fn attach(dir: &Path, device: &str) -> Result<u64> {
    let file = create(dir, "attach")?;
    file.write_all_at(&content(1, PAGES * PAGE), 0)?;
    let hole = create(dir, "attach.hole")?;
    hole.set_len(at(1))?;
    // The filesystem knows the blocks from now on.
    let_go(&file)?;
    read(&file)?;
    let_go(&file)?;
    fadvise(&file, 0, None, Advice::Random)?;
    slow_down(device)?;

    let start = Instant::now();
    want(&file, READY, PAGES - READY)?;
    thread::sleep(DELAY - DELAY / 4);
    (0..SLOW).try_for_each(|page| want(&file, page, 1))?;
    ensure!(start.elapsed() < DELAY, "this machine is too slow");
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    thread::scope(|scope| {
        let punching = scope.spawn(|| fallocate(&file, flags, 0, at(PAGES)));
        println!("punching");
        wait_for_host()?;
        // A filesystem is cached from its first read on. This one needs no block.
        read(&hole)?;
        thread::sleep((DELAY + PAUSE).saturating_sub(start.elapsed()));
        let len = at(PAGES - READY);
        fadvise(&file, at(READY), NonZero::new(len), Advice::DontNeed)?;
        punching
            .join()
            .map_err(|_| anyhow!("the hole's thread panicked"))??;
        anyhow::Ok(())
    })?;
    let found = read(&file)?;
    Ok(found.iter().filter(|byte| **byte != 0).count() as u64)
}

/// Starts to read pages without waiting for them.
fn want(file: &File, page: usize, pages: usize) -> Result<()> {
    let len = NonZero::new(at(pages));
    Ok(fadvise(file, at(page), len, Advice::WillNeed)?)
}

/// Makes each read of the device take [`DELAY`]. Writes are not delayed.
fn slow_down(device: &str) -> Result<()> {
    let ms = DELAY.as_millis();
    let line = format!(
        "size=$(blockdev --getsz {device}) && export DM_DISABLE_UDEV=1 &&
         dmsetup suspend slow &&
         dmsetup load slow --table \"0 $size delay {device} 0 {ms} {device} 0 0\" &&
         dmsetup resume slow"
    );
    let status = Command::new("sh").args(["-c", &line]).status()?;
    ensure!(status.success(), "cannot slow {device} down: {status}");
    Ok(())
}

/// Waits until the module, which the scenario now loads, has a host.
fn wait_for_host() -> Result<()> {
    loop {
        let asked = Command::new("ddctl")
            .args(["--json", "--guest", "status"])
            .output()
            .context("cannot run ddctl")?;
        if String::from_utf8_lossy(&asked.stdout).contains("\"attached\"") {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
}
