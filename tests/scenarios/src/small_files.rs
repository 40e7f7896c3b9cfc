// SPDX-License-Identifier: GPL-2.0-only

//! Many small files with a limit that fits neither their pages nor their inodes: an inode that is
//! evicted invalidates no page at the host (invariant 6).

use anyhow::{Result, ensure};
use ddlab::{Command, Context, FileSpec, Guest, GuestConfig, Scenario, Target, Throttle, content};

use crate::{
    accounting,
    meter::{Measured, Meter},
    stage::{self, Stage, pages, percent},
};

/// Reads 20 000 files twice, and once more after some of them were deleted.
pub(crate) const SMALL_FILES: Scenario = Scenario {
    name: "small-files",
    about: "small files are found at the host although their inodes were evicted",
    quick: false,
    run,
};

/// Number of files.
const FILES: u64 = 20_000;
/// Bytes of each.
const LEN: u64 = 6000;
/// Percentage of pages that are found again; it was 99.45.
const FOUND: f64 = 99.0;
/// The cgroup that reads. Its limit fits a tenth of the pages, without inodes.
const READER: &str = "mail";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let files = content::small_files("tree", FILES, LEN, 1);
    let stage = Stage::set(context, 512)?;
    let disk = stage.disk("mail", files.clone())?;
    let guest = stage.guest(&GuestConfig::new("one").vcpus(2).disk(&disk, Throttle::NONE))?;
    guest.mount(&disk.path_in_guest(), "/mnt", "ext4", "noatime")?;
    stage::container(&guest, READER, "16M", 100)?;

    let meter = Meter::new(&guest, &disk)?;
    let first = meter.measure(|| fill(&guest))?;
    // This drops inodes and dentries, and no pages.
    guest.write_file("/proc/sys/vm/drop_caches", "2")?;
    let second = meter.measure(|| read_all(&guest, &files))?;

    reuse_inodes(&guest)?;
    accounting::check(stage.host())?;
    Ok(targets(&first, &second))
}

fn targets(first: &Measured, second: &Measured) -> Vec<Target> {
    let all = FILES * pages(LEN);
    let counted = second.counters;
    vec![
        // Readers that share the cgroup reclaim a few pages before they are read.
        Target::none(
            "small files: pages asked for in vain while they are read first",
            first.counters.get_asked - first.counters.get_hits,
        ),
        Target::at_least(
            "small files: pages of the second pass from the host",
            FOUND,
            percent(counted.get_hits, all),
            "%",
        ),
        Target::at_least(
            "small files: pages asked for and given",
            FOUND,
            percent(counted.get_hits, counted.get_asked),
            "%",
        ),
    ]
}

/// Reads all files once, several at a time, because the disk is the bottleneck.
fn fill(guest: &Guest) -> Result<()> {
    let read = "find /mnt/tree -type f | xargs -P 6 -n 500 cat > /dev/null";
    let command = Command::shell(read).cgroup(READER);
    guest.run_ok(&command).map(drop)
}

/// Reads all files in order, and compares their content.
fn read_all(guest: &Guest, files: &[FileSpec]) -> Result<()> {
    let sum = guest.read_tree("/mnt/tree", true, Some(READER))?;
    ensure!(
        sum.digest == Some(content::tree_digest(files, "tree")),
        "wrong content: {sum:?}"
    );
    Ok(())
}

/// Replaces files, and checks that new files that get the inodes of deleted ones have their own
/// content.
fn reuse_inodes(guest: &Guest) -> Result<()> {
    guest.drop_caches(true)?;
    let inodes = guest.shell("ls -i /mnt/tree/000 | awk '{ print $1 }' | sort")?;
    guest.shell("rm -r /mnt/tree/000; sync; mkdir /mnt/tree/000")?;
    let text = "a file of another content and much the same length\n".repeat(100);
    for n in 0..100 {
        guest.write_file(&format!("/mnt/tree/000/{n}"), text.as_bytes())?;
    }
    let reused = guest.shell("ls -i /mnt/tree/000 | awk '{ print $1 }' | sort")?;
    let old: Vec<&str> = inodes.lines().collect();
    let same = reused.lines().filter(|inode| old.contains(inode)).count();
    ensure!(same > 50, "only {same} inodes of 100 were used again");
    guest.drop_caches(true)?;
    for n in 0..100 {
        let path = format!("/mnt/tree/000/{n}");
        ensure!(
            guest.read_file(&path)? == text.as_bytes(),
            "{path} has old content"
        );
    }
    Ok(())
}
