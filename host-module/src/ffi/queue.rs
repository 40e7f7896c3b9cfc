// SPDX-License-Identifier: GPL-2.0

//! The work queue, and the scheduler (`shim/queue.c`).

use kernel::bindings;
use kernel::prelude::*;
use kernel::workqueue::Queue;

extern "C" {
    fn dd_queue_create() -> c_int;
    fn dd_queue_destroy();
    fn dd_queue_get() -> *mut bindings::workqueue_struct;
    fn dd_breathe();
    fn dd_dying() -> bool;
}

/// The work queue on which dead VMs are taken apart, from construction until drop.
pub(crate) struct WorkQueue(());

impl WorkQueue {
    /// Creates the queue.
    pub(crate) fn create() -> Result<Self> {
        // SAFETY: Called once, from module init.
        kernel::error::to_result(unsafe { dd_queue_create() })?;
        Ok(Self(()))
    }
}

impl Drop for WorkQueue {
    fn drop(&mut self) {
        // SAFETY: Created by construction; KVM's hooks, which queue work, are gone. Waits for all
        // work.
        unsafe { dd_queue_destroy() };
    }
}

/// The queue.
///
/// # Safety
///
/// A [`WorkQueue`] lives, and does so until the result is not in use any more.
pub(crate) unsafe fn queue<'a>() -> &'a Queue {
    // SAFETY: By the function's contract.
    unsafe { Queue::from_raw(dd_queue_get()) }
}

/// A point where the scheduler may act, between the steps of a long operation.
pub(crate) fn breathe() {
    // SAFETY: Called in process context without locks.
    unsafe { dd_breathe() };
}

/// Whether the current process is being killed: what it asked for is of no use any more.
pub(crate) fn is_dying() -> bool {
    // SAFETY: Reads flags of the current task.
    unsafe { dd_dying() }
}
