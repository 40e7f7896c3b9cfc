// SPDX-License-Identifier: GPL-2.0-only

//! Measures the costs of the cache for work that does not benefit from it, and the benefit for work
//! that does.

use anyhow::{Result, ensure};
use ddlab::{Context, Disk, FileSpec, Guest, ReadSpec, Scenario, Target, Throttle, content};

use crate::{
    ddctl,
    stage::{self, GUEST, Stage},
};

/// Does the same work with and without the guest module, in turns.
pub(crate) const OVERHEAD: Scenario = Scenario {
    name: "overhead",
    about: "a scan and page-cache hits lose next to nothing, small files gain much",
    quick: false,
    run,
};

/// Number of turns of each work with and without the module.
const TURNS: u32 = 5;
/// The file that is scanned.
const SCANNED: u64 = 48 << 20;
/// The file that stays in the page cache.
const KEPT: u64 = 32 << 20;
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
    let small = content::small_files("tree", FILES, LEN, 10);
    let mut files = small.clone();
    files.push(FileSpec::new("scanned", SCANNED, 1));
    files.push(FileSpec::new("kept", KEPT, 2));
    let stage = Stage::set(context, 512)?;
    let disk = stage.disk("data", files)?;
    let guest = stage.guest_with("one", &disk, SLOW)?;
    guest.cgroup("reader", &[("memory.max", "16M")])?;
    let site = Site { guest, disk };

    let (mut scan, mut kept) = (Pair::default(), Pair::default());
    for _ in 0..TURNS {
        for with in [true, false] {
            site.module(with)?;
            scan.note(with, site.scan(with)?);
            kept.note(with, site.kept()?);
        }
    }
    let disk_s = site.small_files()?;
    site.module(true)?;
    site.small_files()?;
    let cached_s = site.small_files()?;
    site.compare(&small)?;
    Ok(vec![
        Target::at_most(
            "overhead: loss of a scan that never re-reads",
            5.0,
            scan.loss(),
            "%",
        ),
        Target::at_most("overhead: loss of page-cache hits", 1.0, kept.loss(), "%"),
        Target::at_least(
            "overhead: speed of small files that are read again, relative to the disk",
            8.0,
            disk_s / cached_s,
            "×",
        ),
    ])
}

/// The guest and its disk.
struct Site {
    guest: Guest,
    disk: Disk,
}

impl Site {
    /// Loads or unloads the module.
    fn module(&self, wanted: bool) -> Result<()> {
        match (self.guest.has_module(GUEST)?, wanted) {
            (false, true) => stage::attach(&self.guest),
            (true, false) => self.guest.unload_module(GUEST),
            _ => Ok(()),
        }
    }

    /// Returns the seconds for reading a file for the first time.
    fn scan(&self, with: bool) -> Result<f64> {
        self.guest.drop_caches(true)?;
        if with {
            ddctl::run(&self.guest, "flush --all")?;
            stage::attached(&self.guest)?;
        }
        let spec = ReadSpec::new("/mnt/scanned").no_digest().cgroup("reader");
        Ok(self.guest.read(&spec)?.seconds)
    }

    /// Returns the seconds for reading a file from the page cache many times. It is the least of
    /// several tries, because the machine is shared.
    fn kept(&self) -> Result<f64> {
        let spec = ReadSpec::new("/mnt/kept").no_digest();
        self.guest.read(&spec)?;
        let mut least = f64::INFINITY;
        for _ in 0..8 {
            least = least.min(self.guest.read(&spec)?.seconds);
        }
        Ok(least)
    }

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
        // EAGAIN means that there was less memory than requested.
        let reclaim = "echo 64M > /sys/fs/cgroup/reader/memory.reclaim 2> /dev/null || true";
        self.guest.shell(reclaim)?;
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

/// The least seconds of a work with and without the module.
struct Pair {
    with: f64,
    without: f64,
}

impl Default for Pair {
    fn default() -> Self {
        Self {
            with: f64::INFINITY,
            without: f64::INFINITY,
        }
    }
}

impl Pair {
    fn note(&mut self, with: bool, seconds: f64) {
        let least = if with {
            &mut self.with
        } else {
            &mut self.without
        };
        *least = least.min(seconds);
    }

    /// Returns how much slower the work is with the module, in percent.
    fn loss(&self) -> f64 {
        (self.with / self.without - 1.0) * 100.0
    }
}
