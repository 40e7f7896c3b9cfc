// SPDX-License-Identifier: GPL-2.0-only

//! Writes to a device, which wear it out: pages that are not read again are not written if the
//! container is set up so, and the containers of a VM divide its share of a write budget by their
//! weights.

use anyhow::{Result, ensure};
use ddlab::{Command, FileSpec, Guest, Machine, Target, wait};

use super::{counted, read};
use crate::{
    accounting, ddctl,
    stage::{self, percent},
};

/// A file that exists as long as the containers read.
const READING: &str = "/run/reading";

/// Weights of the two containers in the SSD tier.
const WEIGHTS: [u32; 2] = [100, 300];

/// Seconds of the write budget that the containers use up together before they are compared, and
/// while they are.
const FIRST_S: u64 = 2;
const COMPARED_S: u64 = 16;

/// Enrols the container of a file. Its pages go to the device when they leave the guest again, and
/// not the first time.
pub(super) fn admits(host: &Machine, guest: &Guest, file: &FileSpec) -> Result<Target> {
    let name = &file.path;
    stage::container(guest, name, "8M", 100)?;
    ddctl::run(guest, &format!("container set-policy {name} fifo"))?;
    let store = format!("container set-store {name} ssd --ssd-admit second");
    ddctl::run(guest, &store)?;
    read(guest, file)?;
    let first = counted(host, name)?;
    ensure!(
        first.put_refused_unproven > 0 && first.ssd_puts * 10 < first.put_refused_unproven,
        "pages were put that had not been read again: {first:?}"
    );
    read(guest, file)?;
    let second = counted(host, name)? - first;
    read(guest, file)?;
    let third = counted(host, name)? - first - second;
    ensure!(third.ssd_hits > 0, "{third:?}");

    // A container in both tiers evicts the pages that have not been read again.
    let store = format!("container set-store {name} hybrid --ssd-admit all");
    ddctl::run(guest, &store)?;
    let store = format!("container set-store {name} hybrid --ssd-admit second");
    ddctl::run(guest, &store)?;
    ddctl::run(host, "set-capacity 8M")?;
    // Pages that have been read again move to the device until the tier has its new size.
    wait::until("the tier has its capacity", || {
        let status = ddctl::host(host)?;
        Ok((status.used_pages <= status.limit_pages).then_some(()))
    })?;
    let before = counted(host, name)?;
    read(guest, file)?;
    accounting::check(host)?;
    let fell = counted(host, name)? - before;
    // A page that was promoted has been on the device already, so that its demotion does not tell
    // whether the device takes unproven pages. Such pages can be those that were in memory before
    // this read, and those that were promoted during it.
    let admitted = fell.promoted + before.used - before.ssd_used;
    let new = fell.demoted.saturating_sub(admitted);
    ensure!(
        fell.evictions_unproven > 0 && new * 10 < fell.evictions_unproven,
        "pages went to the device that had not been read again: {fell:?}"
    );
    read(guest, file)?;
    read(guest, file)?;
    let after = counted(host, name)?;
    ensure!(after.demoted > before.demoted, "{after:?}");
    accounting::check(host)?;
    // The pages that left the guest by the first read have left it again by the second one.
    Ok(Target::at_least(
        "ssd: pages that left the guest again and were written to the device",
        // All of them in each run.
        95.0,
        percent(second.ssd_puts, first.put_refused_unproven),
        "%",
    ))
}

/// Two containers write as much as they may. The device has a write budget of `budget` pages a
/// second.
pub(super) fn divides(
    host: &Machine,
    guest: &Guest,
    files: [&FileSpec; 2],
    budget: u64,
) -> Result<Target> {
    for (file, weight) in files.into_iter().zip(WEIGHTS) {
        let name = &file.path;
        let store = format!("container set-store {name} ssd --ssd-admit all");
        ddctl::run(guest, &store)?;
        let weight = format!("container set-weight {name} 100 --ssd {weight}");
        ddctl::run(guest, &weight)?;
    }
    let put = || -> Result<[u64; 2]> {
        let [one, two] = [
            counted(host, &files[0].path)?,
            counted(host, &files[1].path)?,
        ];
        Ok([one.ssd_puts, two.ssd_puts])
    };
    guest.run_ok(&Command::new(["touch", READING]))?;
    let mut readers = Vec::new();
    for file in files {
        let script = format!(
            "while test -e {READING}; do cat /mnt/{} > /dev/null; done",
            file.path
        );
        let command = Command::new(["sh".into(), "-c".into(), script]).cgroup(&file.path);
        readers.push(guest.spawn(&command)?);
    }
    let written = |since: [u64; 2], pages: u64| {
        let what = "two containers have used up the write budget for some seconds";
        wait::until(what, || {
            let [one, two] = put()?;
            let written = [one - since[0], two - since[1]];
            Ok((written[0] + written[1] >= pages).then_some(written))
        })
    };
    // The first seconds are divided by chance: a budget that was not used may be used at once.
    written(put()?, FIRST_S * budget)?;
    let written = written(put()?, COMPARED_S * budget)?;
    guest.run_ok(&Command::new(["rm", READING]))?;
    for mut reader in readers {
        reader.wait()?;
    }
    accounting::check(host)?;
    if host.checks_itself() {
        // The readers are so slow there that the budget is hardly used up, and a budget that they
        // would use up is smaller than a run of pages, which is not divided.
        return Ok(Target::some(
            "ssd: pages of the write budget that a container gets beside another one",
            written[1],
        ));
    }
    Ok(Target::at_least(
        "ssd: part of the write budget that a container with three quarters of its VM's share gets",
        65.0,
        percent(written[1], written[0] + written[1]),
        "%",
    ))
}
