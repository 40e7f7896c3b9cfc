// SPDX-License-Identifier: GPL-2.0-only

//! A disk that fails for a while.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Disk, FileSpec, Guest, ReadSpec, Sum};

use crate::{
    ddctl, mapper,
    stage::{self, Stage},
};

/// Messages of kernels about disks that fail.
pub(super) const MESSAGES: [&str; 2] = ["I/O error", "EXT4-fs (warning|error)"];

const CONTAINER: &str = "reader";
/// The files. The last one is not read before the disk fails.
const FILES: [(&str, u64); 3] = [("one", 6 << 20), ("two", 6 << 20), ("cold", 6 << 20)];
/// The memory of the container, which is less than one of the files.
const LIMIT: &str = "5M";
/// Bytes that are read and compared at a time.
const PART: u64 = 1 << 20;
/// The error of a read that the disk refuses.
const REFUSED: &str = "Input/output error";

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

/// Reads the disk while it works, while it fails, and when it works again. All content that is read
/// must be right, and a part that could not be read must not be cached with other content.
pub(super) fn fail(guest: &Guest, disk: &Disk) -> Result<()> {
    stage::container(guest, CONTAINER, LIMIT, 100)?;
    let device = disk.path_in_guest();
    let size = mapper::sectors(guest, &device)?;
    let works = format!("0 {size} linear {device} 0");
    mapper::create(guest, "failing", &works)?;
    guest.mount("/dev/mapper/failing", "/failing", "ext4", "ro,noload")?;
    for _ in 0..2 {
        let mut warm = files().take(FILES.len() - 1);
        warm.try_for_each(|file| whole(guest, &file))?;
    }
    let hits = ddctl::counters(guest)?.get_hits;
    ensure!(hits > 0, "no page came from the host");
    switch(guest, &format!("0 {size} error"))?;
    let mut refused = Vec::new();
    for file in files() {
        let parts = read(guest, &file)?;
        refused.push(parts.iter().filter(|read| !**read).count());
        // All parts of the other files may be in the guest or at the host.
        let is_cold = refused.len() == FILES.len();
        ensure!(
            !is_cold || refused.ends_with(&[parts.len()]),
            "parts of {} were read from a disk that fails: {parts:?}",
            file.path
        );
    }
    eprintln!("    parts of files that could not be read: {refused:?}");
    switch(guest, &works)?;
    for _ in 0..3 {
        let mut all = files();
        all.try_for_each(|file| whole(guest, &file))
            .context("after the disk had failed")?;
    }
    guest.exec_ok(["umount", "/failing"])?;
    mapper::run(guest, "remove failing")
}

/// Reads a file, of which all parts must be right.
fn whole(guest: &Guest, file: &FileSpec) -> Result<()> {
    let parts = read(guest, file)?;
    ensure!(parts.iter().all(|read| *read), "{}: {parts:?}", file.path);
    Ok(())
}

/// Reads a file part by part. Returns which parts could be read; their content must be right.
fn read(guest: &Guest, file: &FileSpec) -> Result<Vec<bool>> {
    let part = |offset: u64| {
        let spec = ReadSpec::new(format!("/failing/{}", file.path)).cgroup(CONTAINER);
        judge(file, offset, guest.read(&spec.range(offset, PART)))
    };
    let offsets = (0..file.len).step_by(PART as usize);
    offsets.map(part).collect()
}

/// Returns whether a part of a file could be read. It fails if its content is wrong, and if it was
/// refused for another reason than the disk.
fn judge(file: &FileSpec, offset: u64, read: Result<Sum>) -> Result<bool> {
    let sum = match read {
        Ok(sum) => sum,
        Err(error) if format!("{error:#}").contains(REFUSED) => return Ok(false),
        Err(error) => return Err(error),
    };
    ensure!(
        sum.digest == Some(file.digest_range(offset, PART)),
        "wrong content at {offset} of {}: {sum:?}",
        file.path
    );
    Ok(true)
}

/// Gives the disk another table.
fn switch(guest: &Guest, table: &str) -> Result<()> {
    mapper::run(guest, "suspend --nolockfs failing")?;
    mapper::run(guest, &format!("load failing --table '{table}'"))?;
    mapper::run(guest, "resume failing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    /// Returns what was read with this digest.
    fn sum(digest: Option<String>) -> Result<Sum> {
        Ok(Sum {
            files: 1,
            bytes: PART,
            digest,
            seconds: 0.0,
        })
    }

    #[test]
    fn only_the_content_of_this_part_is_right() {
        let files: Vec<FileSpec> = files().collect();
        let [one, two] = [&files[0], &files[1]];
        let digest = |file: &FileSpec, offset| Some(file.digest_range(offset, PART));
        assert!(judge(one, PART, sum(digest(one, PART))).unwrap());
        // Content of another part, of another file, and of no known one; and nothing to compare.
        for wrong in [
            digest(one, 0),
            digest(two, PART),
            Some("0".repeat(64)),
            None,
        ] {
            let error = judge(one, PART, sum(wrong)).unwrap_err().to_string();
            assert!(
                error.starts_with("wrong content at 1048576 of one"),
                "{error}"
            );
        }
    }

    /// A part that the disk refuses is not wrong; other errors are not the disk's.
    #[test]
    fn only_the_disk_may_refuse() {
        let file = files().next().unwrap();
        let refused = anyhow!("{REFUSED} (os error 5)").context("cannot read /failing/one");
        assert!(!judge(&file, 0, Err(refused)).unwrap());
        let other = anyhow!("the agent does not answer");
        assert!(judge(&file, 0, Err(other)).is_err());
    }
}
