// SPDX-License-Identifier: GPL-2.0-only

//! The notifier that the kernel calls before the OOM killer kills a task (`shim/oom.c`).

use kernel::prelude::*;

extern "C" {
    fn dd_oom_register() -> c_int;
    fn dd_oom_unregister();
}

/// The registered OOM notifier, which is unregistered when this is dropped.
pub(crate) struct OomNotifier(());

impl OomNotifier {
    /// Registers. The state must be published.
    pub(crate) fn register() -> Result<Self> {
        // SAFETY: Called once, from module init.
        kernel::error::to_result(unsafe { dd_oom_register() })?;
        Ok(Self(()))
    }
}

impl Drop for OomNotifier {
    fn drop(&mut self) {
        // SAFETY: Registered by construction. Waits for running callbacks.
        unsafe { dd_oom_unregister() };
    }
}
