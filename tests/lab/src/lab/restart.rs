// SPDX-License-Identifier: GPL-2.0-only

//! A host whose kernel is replaced by another one in the same emulator.

use anyhow::{Context as _, Result};
use ddagent::qmp;

use super::{Lab, load_kvm};
use crate::{
    guest::restart::{REBOOT, UP},
    vitals::Vitals,
    wait,
};

/// Makes the emulator, which otherwise ends when its machine restarts, restart it.
const RESTART: &str = r#"{"execute":"set-action","arguments":{"reboot":"reset"}}"#;

impl Lab {
    /// Calls `how`, which must make L1 start its kernel again, and waits for its agent. L1 must
    /// have no guests. Requests to it fail, or go to the new kernel, until this returns.
    ///
    /// # Errors
    ///
    /// Fails if no other kernel boots. The error has the end of the console.
    pub fn restart(&self, how: impl FnOnce() -> Result<()>) -> Result<()> {
        let vitals = &self.host.link().vitals;
        qmp::command(&self.work.path().join("qmp"), RESTART)?;
        // The current kernel has booted, even if its message is not in the file yet.
        let before = vitals.count(None, UP).max(1);
        how()?;
        has_booted(vitals, before).context("L1 starts again")?;
        vitals.born(None);
        self.host.ping()?;
        load_kvm(&self.host)
    }
}

/// Waits until L1 runs a kernel, after the first `before` ones in its console.
pub(super) fn has_booted(vitals: &Vitals, before: usize) -> Result<()> {
    wait::until_within(REBOOT, "L1 runs another kernel", || {
        vitals.check(None)?;
        Ok((vitals.count(None, UP) > before).then_some(()))
    })
}
