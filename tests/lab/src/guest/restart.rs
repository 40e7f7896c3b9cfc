// SPDX-License-Identifier: GPL-2.0-only

//! Guests whose kernel makes way for another one, in the same VMM.

use anyhow::{Context as _, Result};
use ddagent::protocol::Op;

use super::Guest;
use crate::wait;

/// What a kernel says when it has come up.
const UP: &str = "Run /init as init process";

impl Guest {
    /// What the kernel says after [`Guest::crash`], for [`crate::Context::allow_console`].
    pub const LAST_WORDS: &str = "Kernel panic - not syncing: sysrq triggered crash";

    /// Waits until another kernel runs than now; `how` sees to that, and the guest is asked
    /// nothing until then. Whatever the old one said is no reason to give the new one up.
    ///
    /// # Errors
    ///
    /// When none comes up.
    pub fn restart(&self, how: impl FnOnce() -> Result<()>) -> Result<()> {
        let vitals = &self.machine.link().vitals;
        // Told by the console: a question to an agent that is about to go gets no answer.
        let boots = || vitals.count(&self.name, UP);
        // It is up, even if the news of that still travels.
        let before = boots().max(1);
        how()?;
        wait::until("another kernel runs", || {
            if !self.is_alive()? {
                vitals.check(Some(&self.name))?;
            }
            Ok((boots() > before).then_some(()))
        })
        .with_context(|| format!("guest {} starts again", self.name))?;
        vitals.born(Some(&self.name));
        Ok(())
    }

    /// Has its kernel panic. Without another kernel loaded for that the VMM ends.
    ///
    /// # Errors
    ///
    /// When L1 is dead.
    pub fn crash(&self) -> Result<()> {
        self.machine.tell(Op::WriteFile {
            path: "/proc/sysrq-trigger".to_owned(),
            data: b"c".into(),
            append: true,
        })
    }
}
