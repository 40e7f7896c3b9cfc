// SPDX-License-Identifier: GPL-2.0-only

//! What wears a device out: pages that are not read again are not written if the container wants
//! that.

use anyhow::{Result, ensure};
use ddlab::{FileSpec, Guest, Machine, Target};

use super::{counted, read};
use crate::{
    accounting, ddctl,
    stage::{self, percent},
};

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
    let before = counted(host, name)?;
    read(guest, file)?;
    accounting::check(host)?;
    let fell = counted(host, name)? - before;
    ensure!(
        fell.evictions_unproven > 0 && fell.demoted * 10 < fell.evictions_unproven,
        "pages went to the device that had not been read again: {fell:?}"
    );
    read(guest, file)?;
    read(guest, file)?;
    let after = counted(host, name)?;
    ensure!(after.demoted > before.demoted, "{after:?}");
    accounting::check(host)?;
    Ok(Target::at_least(
        "ssd: pages that left the guest again and went to the device",
        80.0,
        percent(
            second.ssd_puts,
            second.ssd_puts + second.put_refused_unproven,
        ),
        "%",
    ))
}
