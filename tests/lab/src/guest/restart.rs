// SPDX-License-Identifier: GPL-2.0-only

//! Guests whose kernel is replaced by another one in the same VMM.

use std::time::Duration;

use anyhow::{Context as _, Result};
use ddagent::protocol::Op;

use super::Guest;
use crate::wait;

/// Message of a kernel that has booted.
pub(crate) const UP: &str = "Run /init as init process";

/// The longest wait for it. A system with an init of its own ends its services first.
pub(crate) const REBOOT: Duration = Duration::from_secs(900);

impl Guest {
    /// The kernel's message after [`Guest::crash`], for [`crate::Context::allow_console`].
    pub const LAST_WORDS: &str = "Kernel panic - not syncing: sysrq triggered crash";

    /// Calls `how`, which must make the guest start another kernel, and waits for that kernel.
    /// Until then the agent gets no requests, and messages of the old kernel are not errors.
    ///
    /// # Errors
    ///
    /// Fails if no other kernel boots.
    pub fn restart(&self, how: impl FnOnce() -> Result<()>) -> Result<()> {
        let vitals = &self.machine.link().vitals;
        // The console is used, because an agent that is about to end does not answer.
        let boots = || vitals.count(Some(&self.name), UP);
        // The current kernel has booted, even if its message has not arrived yet.
        let before = boots().max(1);
        how()?;
        wait::until_within(REBOOT, "another kernel runs", || {
            if !self.is_alive()? {
                vitals.check(Some(&self.name))?;
            }
            Ok((boots() > before).then_some(()))
        })
        .with_context(|| format!("guest {} starts again", self.name))?;
        vitals.born(Some(&self.name));
        Ok(())
    }

    /// Makes its kernel panic. Unless a crash kernel is loaded the VMM ends.
    ///
    /// # Errors
    ///
    /// Fails if L1 is dead.
    pub fn crash(&self) -> Result<()> {
        self.machine.tell(Op::WriteFile {
            path: "/proc/sysrq-trigger".to_owned(),
            data: b"c".into(),
            append: true,
        })
    }
}
