// SPDX-License-Identifier: GPL-2.0-only

//! Measures the costs of the cache for work that does not benefit from it, and the benefit for work
//! that does.

use anyhow::{Result, ensure};
use ddlab::{Context, Disk, FileSpec, Guest, Scenario, Target, Throttle, content};

use crate::stage::{self, GUEST, Stage};

mod losses;

/// Measures what is lost in processor time, and what is gained beside a slow disk.
pub(crate) const OVERHEAD: Scenario = Scenario {
    name: "overhead",
    about: "work that gains nothing loses little processor time, small files gain much",
    quick: false,
    run,
};

/// Small files, and their size.
const FILES: u64 = 2000;
const LEN: u64 = 6000;

/// A cloud disk of few operations and few bytes a second. Under emulation a copy costs much more
/// than on a processor, and the disk must be slower by the same factor for a meaningful comparison.
const SLOW: Throttle = Throttle {
    iops: Some(120),
    bytes_per_s: Some(16 << 20),
};

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let mut targets = stage::counting_instructions(context, losses::measure)?;
    targets.push(small_files(context)?);
    Ok(targets)
}

/// Compares reads of small files from the host with reads from the disk.
fn small_files(context: &mut Context) -> Result<Target> {
    let small = content::small_files("tree", FILES, LEN, 10);
    let stage = Stage::set(context, 512)?;
    let disk = stage.disk("data", small.clone())?;
    let guest = stage.guest_with("one", &disk, SLOW)?;
    guest.cgroup("reader", &[("memory.max", "16M")])?;
    let site = Site { guest, disk };
    site.guest.unload_module(GUEST)?;
    let disk_s = site.small_files()?;
    stage::attach(&site.guest)?;
    site.small_files()?;
    let cached_s = site.small_files()?;
    site.compare(&small)?;
    Ok(Target::at_least(
        "overhead: speed of small files that are read again, relative to the disk",
        8.0,
        disk_s / cached_s,
        "×",
    ))
}

/// The guest and its disk.
struct Site {
    guest: Guest,
    disk: Disk,
}

impl Site {
    /// Returns the seconds for reading all small files with an empty page cache. Its content was
    /// reclaimed, so that the module has seen it.
    fn small_files(&self) -> Result<f64> {
        self.empty()?;
        let sum = self.guest.read_tree("/mnt/tree", false, Some("reader"))?;
        ensure!(sum.files == FILES, "{sum:?} on {:?}", self.disk);
        Ok(sum.seconds)
    }

    /// Reclaims all pages of the reader, then the remaining inodes.
    fn empty(&self) -> Result<()> {
        stage::reclaim(&self.guest, "reader", "64M")?;
        self.guest.drop_caches(true)
    }

    /// Compares the content of all small files.
    fn compare(&self, files: &[FileSpec]) -> Result<()> {
        self.empty()?;
        let sum = self.guest.read_tree("/mnt/tree", true, Some("reader"))?;
        ensure!(sum.digest == Some(content::tree_digest(files, "tree")));
        Ok(())
    }
}
