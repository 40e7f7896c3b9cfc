// SPDX-License-Identifier: GPL-2.0-only

//! The daemon of a host, as a program in the background.

use anyhow::{Result, ensure};
use ddlab::{Command, Machine, Running};

/// Path of its file in every host. The scenario writes the file before it starts the daemon.
pub(crate) const FILE_PATH: &str = "/run/host.toml";
const SIGTERM: i32 = 15;

/// Starts the daemon.
pub(crate) fn start(host: &Machine) -> Result<Running> {
    host.spawn(&Command::new(["ddhostd", "run", "--config", FILE_PATH]))
}

/// Ends the daemon as the service manager does. It must still run, and must report no failure.
pub(crate) fn stop(running: &mut Running) -> Result<()> {
    running.kill(SIGTERM)?;
    let exit = running.wait()?;
    ensure!(exit.success(), "ddhostd {exit}: {}", running.output()?);
    Ok(())
}
