// SPDX-License-Identifier: GPL-2.0-only

//! What happens to a filesystem while processes work on it.

use anyhow::{Result, ensure};
use ddlab::{Command, Guest, Running};

use crate::filesystem::Filesystem;

/// A filesystem to disturb.
#[derive(Debug)]
pub(crate) struct Disturbance<'a> {
    pub(crate) filesystem: &'a Filesystem,
    /// Where it is mounted, from which device.
    pub(crate) place: &'a str,
    pub(crate) device: &'a str,
    /// Directory made by `ddhelper torture-models`.
    pub(crate) models: &'a str,
    /// Whether it is unmounted now and then, for which processes must make way.
    pub(crate) unmount: bool,
    /// Size it was made with, in MiB, if it is smaller than its device and to grow.
    pub(crate) grow_from: Option<u64>,
}

impl Disturbance<'_> {
    /// Starts what drops caches, freezes, remounts, and reclaims from containers.
    pub(crate) fn start<C: AsRef<str>>(
        &self,
        guest: &Guest,
        containers: impl IntoIterator<Item = C>,
    ) -> Result<Running> {
        let mut line = format!(
            "ddhelper torture-disturb --mount {} --device {} --fstype {} --models {} --seed {}",
            self.place, self.device, self.filesystem.fstype, self.models, self.filesystem.block,
        );
        if self.unmount {
            line += " --unmount";
        }
        if let Some(mib) = self.grow_from {
            line += &format!(" --grow-from {mib}");
        }
        for container in containers {
            line += " --cgroup ";
            line += container.as_ref();
        }
        guest.spawn(&Command::new(line.split_whitespace()))
    }
}

/// Ends a disturber, which does not end by itself.
pub(crate) fn end(mut disturber: Running) -> Result<()> {
    let ended = disturber.poll()?.is_some();
    ensure!(!ended, "a disturber ended: {}", disturber.output()?);
    disturber.kill(9)?;
    disturber.wait()?;
    Ok(())
}
