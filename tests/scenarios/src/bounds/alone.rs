// SPDX-License-Identifier: GPL-2.0-only

//! The guest module alone: without a host, or without functions to attach to.

use std::{thread, time::Duration};

use anyhow::{Result, ensure};
use ddlab::{Guest, Target, wait};

use super::CAPACITY_MIB;
use crate::{
    ddctl,
    stage::{self, Stage},
};

/// Containers that are added, and whose cgroups are then removed.
const CONTAINERS: u32 = 12;
/// Time in which the worker looks for a host several times.
const LOOKS: Duration = Duration::from_secs(8);

/// Containers whose cgroup was removed disappear also without a host.
pub(super) fn reaps(guest: &Guest) -> Result<()> {
    stage::alone(guest)?;
    for number in 0..CONTAINERS {
        let name = format!("c{number}");
        guest.cgroup(&name, &[])?;
        ddctl::run(guest, &format!("container add {name}"))?;
        guest.exec_ok(["rmdir", &format!("/sys/fs/cgroup/{name}")])?;
    }
    wait::until("containers without a cgroup are gone", || {
        Ok((ddctl::guest(guest)?.pools == 1).then_some(()))
    })
}

/// If the kernel refuses the hooks, the module tries again at intervals and reports it once. It
/// attaches when the kernel allows it.
pub(super) fn attaches(stage: &Stage<'_>, guest: &Guest) -> Result<Target> {
    let enabled = "/proc/sys/kernel/ftrace_enabled";
    guest.write_file(enabled, "0")?;
    stage.load_host(CAPACITY_MIB)?;
    wait::until("the guest module cannot attach", || {
        Ok((ddctl::guest(guest)?.state == "refused").then_some(()))
    })?;
    let before = ddctl::counters(guest)?.calls;
    thread::sleep(LOOKS);
    let calls = ddctl::counters(guest)?.calls - before;
    let log = guest.exec_ok(["dmesg"])?;
    let told = log.matches("cannot attach to").count();
    ensure!(
        told == 1 && log.contains("kernel.ftrace_enabled=0"),
        "the failure was reported {told} times:\n{log}"
    );
    guest.write_file(enabled, "1")?;
    wait::until("the guest module attaches", || {
        Ok((ddctl::guest(guest)?.state == "attached").then_some(()))
    })?;
    Ok(Target::none(
        "bounds: calls in seconds after the kernel refused the hooks",
        calls,
    ))
}
