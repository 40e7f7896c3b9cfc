// SPDX-License-Identifier: GPL-2.0-only

//! The work queue, and the scheduler (`shim/queue.c`).

use crate::memory::quietly;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::{
    ordering::{Acquire, Full, Relaxed},
    Atomic,
};
use kernel::workqueue::Queue;

extern "C" {
    fn dd_queue_create() -> c_int;
    fn dd_queue_destroy();
    fn dd_queue_flush();
    fn dd_queue_wake_evictor();
    fn dd_queue_get() -> *mut bindings::workqueue_struct;
    fn dd_cond_resched();
    fn dd_dying() -> bool;
}

/// The work queue on which pages are evicted, and those of ended sessions freed. It is destroyed
/// when this is dropped.
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
        // SAFETY: Created by construction. KVM's hooks and the netlink family, which queue work, are
        // gone. Waits for all work.
        unsafe { dd_queue_destroy() };
    }
}

/// Whether the module is being unloaded.
static LEAVING: Atomic<bool> = Atomic::new(false);

/// Makes long work end early when it is dropped, which is the first thing on unload.
pub(crate) struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        LEAVING.store(true, Relaxed);
    }
}

/// The work that is queued, which is done when this is dropped.
pub(crate) struct PendingWork(());

impl PendingWork {
    /// # Safety
    ///
    /// The result is dropped before the [`WorkQueue`] is.
    pub(crate) unsafe fn new() -> Self {
        Self(())
    }
}

impl Drop for PendingWork {
    fn drop(&mut self) {
        // SAFETY: By the contract of `new` the queue exists.
        unsafe { dd_queue_flush() };
    }
}

/// Runs `work` on the queue. Returns `false` if there is no memory for that.
///
/// For calls of guests, commands, and work of the queue. All of them end before the queue is
/// destroyed (`Module` in `main.rs`), and none begins before it is created.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) -> bool {
    // SAFETY: The callers run only while the queue exists, as the function's documentation
    // requires.
    let queue = unsafe { Queue::from_raw(dd_queue_get()) };
    queue.try_spawn(quietly(), work).is_ok()
}

/// Work of the queue that one task does at a time.
pub(crate) struct Single(Atomic<bool>);

impl Single {
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(false))
    }

    /// Claims the work. Returns `false` if a task does it already.
    pub(crate) fn claim(&self) -> bool {
        !self.is_claimed() && !self.0.xchg(true, Full)
    }

    /// Runs `work`, which was claimed, on the queue. It calls [`Single::end`] when it is done.
    pub(crate) fn run(&self, work: impl FnOnce() + Send + 'static) {
        if !spawn(work) {
            self.end();
        }
    }

    /// Lets another task do the work.
    pub(crate) fn end(&self) {
        self.0.xchg(false, Full);
    }

    /// Returns whether a task does the work.
    pub(crate) fn is_claimed(&self) -> bool {
        self.0.load(Acquire)
    }
}

/// Returns the queue, for the work of a VM that is gone.
///
/// # Safety
///
/// A [`WorkQueue`] lives, and does so until the result is not in use any more.
pub(crate) unsafe fn queue<'a>() -> &'a Queue {
    // SAFETY: By the function's contract.
    unsafe { Queue::from_raw(dd_queue_get()) }
}

/// Makes the background evictor run soon. For the same callers as [`spawn`].
pub(crate) fn wake_evictor() {
    // SAFETY: As for `spawn`. Work that is pending is not queued twice.
    unsafe { dd_queue_wake_evictor() };
}

/// Lets the scheduler run other tasks.
pub(crate) fn cond_resched() {
    // SAFETY: Called in process context without locks.
    unsafe { dd_cond_resched() };
}

/// Returns whether the module is being unloaded, so that long work ends early.
pub(crate) fn is_leaving() -> bool {
    LEAVING.load(Relaxed)
}

/// Returns whether the current task is being killed.
pub(crate) fn is_dying() -> bool {
    // SAFETY: Reads flags of the current task.
    unsafe { dd_dying() }
}
