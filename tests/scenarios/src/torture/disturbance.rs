// SPDX-License-Identifier: GPL-2.0-only

//! Events on a filesystem while processes use it.

use anyhow::{Result, ensure};
use ddlab::{Command, Guest, Running};

use crate::filesystem::Filesystem;

/// A filesystem to disturb.
#[derive(Debug)]
pub(crate) struct Disturbance<'a> {
    pub(crate) filesystem: &'a Filesystem,
    /// Its mount point and device.
    pub(crate) place: &'a str,
    pub(crate) device: &'a str,
    /// Directory with the models, made by `ddhelper torture-models`.
    pub(crate) models: &'a str,
    /// Whether it is unmounted at times, for which processes close their files.
    pub(crate) unmount: bool,
    /// Initial size in MiB, if it is smaller than its device and grows.
    pub(crate) grow_from: Option<u64>,
}

impl Disturbance<'_> {
    /// Starts the program that drops caches, freezes, remounts, and reclaims from containers.
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
