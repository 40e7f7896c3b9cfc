// SPDX-License-Identifier: GPL-2.0-only

//! The shrinker that memory reclaim calls (`shim/shrinker.c`).

use kernel::prelude::*;

extern "C" {
    fn dd_shrinker_register() -> c_int;
    fn dd_shrinker_unregister();
    fn dd_reclaim_enter();
    fn dd_reclaim_leave();
}

/// The registered shrinker, which is unregistered when this is dropped.
pub(crate) struct Shrinker(());

impl Shrinker {
    /// Registers with memory reclaim. The state must be published.
    pub(crate) fn register() -> Result<Self> {
        // SAFETY: Called once, from module init.
        kernel::error::to_result(unsafe { dd_shrinker_register() })?;
        Ok(Self(()))
    }
}

impl Drop for Shrinker {
    fn drop(&mut self) {
        // SAFETY: Registered by construction. Waits for running callbacks.
        unsafe { dd_shrinker_unregister() };
    }
}

/// Calls `work` marked as memory reclaim. Lockdep thus learns the order of its locks when the
/// module is loaded, and not only at the first reclaim.
pub(crate) fn like_reclaim(work: impl FnOnce()) {
    // SAFETY: This only informs the lock checker, and is left below.
    unsafe { dd_reclaim_enter() };
    work();
    // SAFETY: Entered above.
    unsafe { dd_reclaim_leave() };
}
