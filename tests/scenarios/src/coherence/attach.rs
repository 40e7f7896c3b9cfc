// SPDX-License-Identifier: GPL-2.0-only

//! The module is loaded while a file changes.

use anyhow::{Context as _, Result};
use ddlab::{Command, Disk, Guest, Target, wait};

use crate::{filesystem::EXT4, mapper, stage};

const MOUNT: &str = "/slow";
const DEVICE: &str = "/dev/mapper/slow";

/// Attaches the guest to its host while a hole is punched on a disk, which is blank before and
/// afterwards.
pub(super) fn hold(guest: &Guest, disk: &Disk) -> Result<Target> {
    let device = disk.path_in_guest();
    EXT4.format(guest, &device)?;
    let size = mapper::sectors(guest, &device)?;
    guest.exec_ok(["modprobe", "dm-delay"])?;
    mapper::create(guest, "slow", &format!("0 {size} linear {device} 0"))?;
    guest.mount(DEVICE, MOUNT, EXT4.fstype, "noatime")?;

    let line = format!(
        "ddhelper rule attach --mount {MOUNT} --device {device} --fstype {} --cgroup none",
        EXT4.fstype
    );
    let mut rule = guest.spawn(&Command::new(line.split(' ')))?;
    wait::until("the hole is being punched", || {
        let ended = rule.poll()?.is_some();
        let begun = rule.output()?.contains("punching");
        Ok((begun || ended).then_some(()))
    })?;
    stage::attach(guest)?;
    let exit = rule.wait()?;
    let output = rule.output()?;
    let wrong = output.lines().last().filter(|_| exit.success());
    let wrong: f64 = wrong
        .with_context(|| format!("the rule failed: {output}"))?
        .trim()
        .parse()
        .context("the output is not a number")?;

    guest.exec_ok(["umount", MOUNT])?;
    mapper::run(guest, "remove slow")?;
    Ok(Target::at_most(
        "coherence: wrong bytes after the module was loaded while a hole was punched",
        0.0,
        wrong,
        "",
    ))
}
