// SPDX-License-Identifier: GPL-2.0-only

//! The background job (`shim/worker.c`).

use kernel::ffi::c_uint;

use crate::genl::Family;

extern "C" {
    fn dd_worker_start();
    fn dd_worker_kick();
    fn dd_worker_hurry();
    fn dd_worker_stop();
}

/// Milliseconds until the job runs again.
pub(crate) type Delay = c_uint;

/// The background job, `dd_on_worker_run` in `hooks/entry.rs`, from its start to its end.
pub(crate) struct Worker {
    /// The netlink family to which the job sends its events. It is dropped after the job has been
    /// stopped, because fields are dropped after `Drop::drop` returns.
    _family: Family,
}

impl Worker {
    /// Starts the job.
    pub(crate) fn start(family: Family) -> Self {
        // SAFETY: The state that the job uses was published before.
        unsafe { dd_worker_start() };
        Self { _family: family }
    }

    /// Runs the job as soon as possible. Any context.
    pub(crate) fn kick() {
        // SAFETY: A job that was stopped does not start again.
        unsafe { dd_worker_kick() };
    }

    /// Runs the job soon, but not before a short pause after its last run. This is for events that
    /// are frequent under load. Any context.
    pub(crate) fn hurry() {
        // SAFETY: As for `kick`.
        unsafe { dd_worker_hurry() };
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: This waits for a running job and keeps it from starting again.
        unsafe { dd_worker_stop() };
    }
}
