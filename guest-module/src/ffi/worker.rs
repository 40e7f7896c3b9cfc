// SPDX-License-Identifier: GPL-2.0

//! The background job (`shim/worker.c`).

use kernel::ffi::c_uint;

extern "C" {
    fn dd_worker_start();
    fn dd_worker_kick();
    fn dd_worker_hurry();
    fn dd_worker_stop();
}

/// Milliseconds until the job runs again.
pub(crate) type Delay = c_uint;

/// Starts, hurries and ends the background job, `entry::dd_on_worker_run`.
pub(crate) struct Worker(());

impl Worker {
    /// Starts the job.
    pub(crate) fn start() -> Self {
        // SAFETY: The job's state was published before.
        unsafe { dd_worker_start() };
        Self(())
    }

    /// Runs the job as soon as possible; any context.
    pub(crate) fn kick() {
        // SAFETY: A stopped job stays stopped.
        unsafe { dd_worker_kick() };
    }

    /// Runs the job soon, but not at once after its last run: for what happens all the time under
    /// load. Any context.
    pub(crate) fn hurry() {
        // SAFETY: As for `kick`.
        unsafe { dd_worker_hurry() };
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: Waits for a running job and keeps it from starting again.
        unsafe { dd_worker_stop() };
    }
}
