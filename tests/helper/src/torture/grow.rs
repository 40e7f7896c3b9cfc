// SPDX-License-Identifier: GPL-2.0-only

//! A filesystem that grows while it is in use.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};
use ddhelper::churn::Random;

use super::DisturbArguments;

/// Growth of each step, in MiB.
const STEP: u64 = 4;
/// Number of steps.
const STEPS: u64 = 40;

/// The growth of a filesystem.
#[derive(Debug)]
pub(super) struct Growth {
    /// Initial size in MiB.
    from: u64,
    /// Number of times it has grown.
    steps: u64,
}

impl Growth {
    pub(super) fn new(from: u64) -> Self {
        Self { from, steps: 0 }
    }

    /// Returns whether to grow now. The first time comes soon, the others rarely.
    pub(super) fn is_due(&self, rng: &mut Random) -> bool {
        self.steps < STEPS && rng.chance(if self.steps == 0 { 30 } else { 3 })
    }

    /// Enlarges the filesystem, and writes the number of successes to a file.
    pub(super) fn step(&mut self, arguments: &DisturbArguments) -> Result<()> {
        let mib = self.from + (self.steps + 1) * STEP;
        let mut command = if arguments.fstype == "xfs" {
            let block = rustix::fs::statvfs(&arguments.mount)?.f_bsize;
            let mut command = Command::new("xfs_growfs");
            let blocks = ((mib << 20) / block).to_string();
            command.arg("-D").arg(blocks).arg(&arguments.mount);
            command
        } else {
            let mut command = Command::new("resize2fs");
            command.arg(&arguments.device).arg(format!("{mib}M"));
            command
        };
        let done = command
            .output()
            .context("cannot run the program that grows the filesystem")?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "cannot grow to {mib} MiB: {said}");
        self.steps += 1;
        fs::write(arguments.models.join("grown"), self.steps.to_string())?;
        Ok(())
    }
}
