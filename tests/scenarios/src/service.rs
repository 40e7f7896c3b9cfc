// SPDX-License-Identifier: GPL-2.0

//! policyd as a service of a whole Debian.

use anyhow::{Result, ensure};
use ddlab::{Guest, wait};

use crate::ddctl::Container;

const UNIT: &str = include_str!("../../../policyd/doubledecker-policyd.service");
pub(crate) const UNIT_NAME: &str = "doubledecker-policyd.service";
pub(crate) const FILE_PATH: &str = "/etc/doubledecker/policyd.toml";

/// Waits until systemd started all it wants; nothing may have failed.
pub(crate) fn booted(guest: &Guest) -> Result<()> {
    let state = guest.exec(["systemctl", "is-system-running", "--wait"])?;
    let failed = || guest.exec_ok(["systemctl", "--failed", "--no-legend", "--plain"]);
    ensure!(
        state.text().trim() == "running",
        "{}: {}",
        state.text(),
        failed()?
    );
    Ok(())
}

/// As `docs/policyd.md` says.
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

/// Kills the daemon; systemd starts it again.
pub(crate) fn crash(guest: &Guest) -> Result<()> {
    let pid = main_pid(guest)?;
    let kill = ["systemctl", "kill", "--signal=KILL", UNIT_NAME];
    guest.exec_ok(kill)?;
    wait::until("systemd starts the daemon again", || {
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

/// A property of the service.
fn show(guest: &Guest, property: &str) -> Result<String> {
    let shown = guest.exec_ok(["systemctl", "show", "--value", "-p", property, UNIT_NAME])?;
    Ok(shown.trim().to_owned())
}

/// What the daemon said.
pub(crate) fn journal(guest: &Guest) -> String {
    let said = guest.exec_ok(["journalctl", "--no-pager", "-o", "cat", "-u", UNIT_NAME]);
    said.unwrap_or_else(|error| format!("no journal: {error:#}"))
}

/// The weights of pools, for a message.
pub(crate) fn weights(pools: &[Container]) -> String {
    let all = pools
        .iter()
        .map(|one| format!("{} {}", one.name, one.weight));
    all.collect::<Vec<_>>().join(", ")
}

/// Runs what leaves something in the background, which would keep the pipes of its
/// starter open.
pub(crate) fn detached(guest: &Guest, line: &str) -> Result<()> {
    const LOG: &str = "/run/detached.log";
    let line = format!("{line} > {LOG} 2>&1 || {{ cat {LOG} >&2; false; }}");
    guest.shell(line).map(drop)
}
