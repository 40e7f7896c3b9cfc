// SPDX-License-Identifier: GPL-2.0-only

//! policyd as a service of a complete Debian.

use anyhow::{Result, ensure};
use ddlab::{Disk, FileSpec, Guest, GuestConfig, Machine, Throttle, wait};

use crate::{
    ddctl::{self, Container},
    stage::Stage,
};

const UNIT: &str = include_str!("../../../policyd/doubledecker-policyd.service");
pub(crate) const UNIT_NAME: &str = "doubledecker-policyd.service";
pub(crate) const FILE_PATH: &str = "/etc/doubledecker/policyd.toml";

/// Boots a Debian guest with a disk of files, given by name and size in MiB, at `/srv`. Returns the
/// guest and a blank disk for [`store`].
pub(crate) fn boot<const N: usize>(
    stage: &Stage<'_>,
    files: [(&str, u64); N],
) -> Result<(Guest, Disk)> {
    let files = files.map(|(name, mib)| FileSpec::new(name, mib << 20, 1));
    let data = stage.disk("data", files.into())?;
    let images = stage.blank_disk("images", 512)?;
    let config = GuestConfig::new("debian")
        .debian()
        .memory_mib(1024)
        .disk(&data, Throttle::NONE)
        .disk(&images, Throttle::NONE);
    let guest = stage.lab.start_guest(&config)?;
    guest.mount(&data.path_in_guest(), "/srv", "ext4", "noatime")?;
    booted(&guest)?;
    Ok((guest, images))
}

/// Makes the filesystem on a disk in which podman keeps its containers.
pub(crate) fn store(guest: &Guest, images: &Disk) -> Result<()> {
    guest.exec_ok(["mkfs.ext4", "-q", &images.path_in_guest()])?;
    let store = "/var/lib/containers";
    guest.mount(&images.path_in_guest(), store, "ext4", "noatime")
}

/// Waits until systemd has started all units. None may have failed.
pub(crate) fn booted(machine: &Machine) -> Result<()> {
    let state = machine.exec(["systemctl", "is-system-running", "--wait"])?;
    let failed = || machine.exec_ok(["systemctl", "--failed", "--no-legend", "--plain"]);
    ensure!(
        state.text().trim() == "running",
        "{}: {}",
        state.text(),
        failed()?
    );
    Ok(())
}

/// Installs policyd as described in `docs/users/policyd.md`.
pub(crate) fn install(guest: &Guest, file: &str) -> Result<()> {
    guest.shell("install -m 755 /opt/dd/bin/policyd /usr/sbin/; mkdir -p /etc/doubledecker")?;
    guest.write_file(FILE_PATH, file)?;
    guest.write_file(&format!("/etc/systemd/system/{UNIT_NAME}"), UNIT)?;
    guest.exec_ok(["systemctl", "daemon-reload"])?;
    guest.exec_ok(["systemctl", "enable", "--now", UNIT_NAME])?;
    let enabled = guest.exec_ok(["systemctl", "is-enabled", UNIT_NAME])?;
    ensure!(enabled.trim() == "enabled", "the unit is {enabled}");
    Ok(())
}

/// Kills the daemon, and waits until systemd has restarted it.
pub(crate) fn crash(guest: &Guest) -> Result<()> {
    let pid = main_pid(guest)?;
    let kill = ["systemctl", "kill", "--signal=KILL", UNIT_NAME];
    guest.exec_ok(kill)?;
    wait::until("systemd has restarted the daemon", || {
        let now = main_pid(guest)?;
        Ok((now != "0" && now != pid && show(guest, "ActiveState")? == "active").then_some(()))
    })?;
    let restarts = show(guest, "NRestarts")?;
    ensure!(restarts == "1", "systemd counts {restarts} restarts");
    Ok(())
}

pub(crate) fn main_pid(guest: &Guest) -> Result<String> {
    show(guest, "MainPID")
}

/// Returns a property of the service.
fn show(guest: &Guest, property: &str) -> Result<String> {
    let shown = guest.exec_ok(["systemctl", "show", "--value", "-p", property, UNIT_NAME])?;
    Ok(shown.trim().to_owned())
}

/// Returns the daemon's journal.
pub(crate) fn journal(guest: &Guest) -> String {
    let said = guest.exec_ok(["journalctl", "--no-pager", "-o", "cat", "-u", UNIT_NAME]);
    said.unwrap_or_else(|error| format!("no journal: {error:#}"))
}

/// Returns the part of all weights that a container has, in percent. Prints all weights if it is
/// below the container's floor.
pub(crate) fn share(pools: &[Container], name: &str, floor: f64, when: &str) -> Result<f64> {
    let sum: u32 = pools.iter().map(|one| one.weight).sum();
    let weight = ddctl::container(pools, name)?.weight;
    let share = f64::from(weight) * 100.0 / f64::from(sum);
    if share < floor {
        eprintln!("    {share:.1} % {when}: {}", weights(pools));
    }
    Ok(share)
}

/// Returns the weights of pools as text.
pub(crate) fn weights(pools: &[Container]) -> String {
    let all = pools
        .iter()
        .map(|one| format!("{} {}", one.name, one.weight));
    all.collect::<Vec<_>>().join(", ")
}

/// Runs a command that leaves processes in the background, which would keep the pipes of its
/// starter open.
pub(crate) fn detached(guest: &Guest, line: &str) -> Result<()> {
    const LOG: &str = "/run/detached.log";
    let line = format!("{line} > {LOG} 2>&1 || {{ cat {LOG} >&2; false; }}");
    guest.shell(line).map(drop)
}
