// SPDX-License-Identifier: GPL-2.0-only

//! Devices of the device mapper, at `/dev/mapper`.

use anyhow::{Context as _, Result};
use ddlab::Machine;

/// Makes a device.
pub(crate) fn create(machine: &Machine, name: &str, table: &str) -> Result<()> {
    machine.exec_ok(["modprobe", "dm-mod"])?;
    run(machine, &format!("create {name} --table '{table}'"))
}

/// Executes a command of the device mapper. There is no udev, so that it makes its device nodes
/// itself.
pub(crate) fn run(machine: &Machine, line: &str) -> Result<()> {
    let line = format!("DM_DISABLE_UDEV=1 dmsetup {line}");
    machine.shell(line).map(drop)
}

/// Returns the length of a device in sectors, as tables need it.
pub(crate) fn sectors(machine: &Machine, device: &str) -> Result<u64> {
    let size = machine.exec_ok(["blockdev", "--getsz", device])?;
    size.trim().parse().context("the output is not a number")
}
