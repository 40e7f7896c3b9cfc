// SPDX-License-Identifier: GPL-2.0

//! A disk that fails for a while.

use anyhow::{Result, ensure};
use ddlab::{Disk, FileSpec, Guest, ReadSpec};

use crate::{
    ddctl, mapper,
    stage::{self, Stage},
};

/// What kernels say of disks that fail.
pub(super) const MESSAGES: [&str; 2] = ["I/O error", "EXT4-fs (warning|error)"];

const CONTAINER: &str = "reader";
/// The last one is not read before the disk fails.
const FILES: [(&str, u64); 3] = [("one", 6 << 20), ("two", 6 << 20), ("cold", 6 << 20)];
/// Less than one of the files.
const LIMIT: &str = "5M";

fn files() -> impl Iterator<Item = FileSpec> {
    let seeds = 90..;
    FILES
        .into_iter()
        .zip(seeds)
        .map(|((name, size), seed)| FileSpec::new(name, size, seed))
}

/// The disk, with its files.
pub(super) fn make(stage: &Stage<'_>) -> Result<Disk> {
    stage.disk("failing", files().collect())
}

/// Reads it while it works, while it does not, and when it works again: all that is read is
/// right, and what could not be read is not kept as something else.
pub(super) fn fail(guest: &Guest, disk: &Disk) -> Result<()> {
    stage::container(guest, CONTAINER, LIMIT, 100)?;
    let device = disk.path_in_guest();
    let size = mapper::sectors(guest, &device)?;
    let works = format!("0 {size} linear {device} 0");
    mapper::create(guest, "failing", &works)?;
    guest.mount("/dev/mapper/failing", "/failing", "ext4", "ro,noload")?;
    for _ in 0..2 {
        let mut warm = files().take(FILES.len() - 1);
        ensure!(warm.all(|file| read(guest, &file)), "wrong content");
    }
    let hits = ddctl::counters(guest)?.get_hits;
    ensure!(hits > 0, "nothing came from the host");
    switch(guest, &format!("0 {size} error"))?;
    // What the guest and the host have of the others may well be all.
    let right = files().filter(|file| read(guest, file)).count();
    ensure!(right < FILES.len(), "a disk that fails was not noticed");
    switch(guest, &works)?;
    for _ in 0..3 {
        ensure!(
            files().all(|file| read(guest, &file)),
            "wrong content after a disk failed"
        );
    }
    guest.exec_ok(["umount", "/failing"])?;
    mapper::run(guest, "remove failing")
}

/// Whether a file can be read and is right.
fn read(guest: &Guest, file: &FileSpec) -> bool {
    let spec = ReadSpec::new(format!("/failing/{}", file.path)).cgroup(CONTAINER);
    stage::read(guest, &spec, file).is_ok()
}

/// Gives the disk another table.
fn switch(guest: &Guest, table: &str) -> Result<()> {
    mapper::run(guest, "suspend --nolockfs failing")?;
    mapper::run(guest, &format!("load failing --table '{table}'"))?;
    mapper::run(guest, "resume failing")
}
