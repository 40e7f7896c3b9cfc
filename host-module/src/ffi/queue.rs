// SPDX-License-Identifier: GPL-2.0-only

//! The work queue, and the scheduler (`shim/queue.c`).

use crate::memory::without_waiting;
use kernel::alloc::Flags;
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

/// The work queue, which evicts pages, writes to devices and frees pages of ended sessions. It is
/// destroyed when this is dropped.
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
        // SAFETY: Created by construction. KVM's hooks and the netlink family, which queue work,
        // have been removed. Waits for all work.
        unsafe { dd_queue_destroy() };
    }
}

/// Whether the module is being unloaded.
static LEAVING: Atomic<bool> = Atomic::new(false);

/// Makes long work end early when it is dropped, which is the first step of unloading.
pub(crate) struct UnloadGuard;

impl Drop for UnloadGuard {
    fn drop(&mut self) {
        LEAVING.store(true, Relaxed);
    }
}

/// The queued work. Dropping this waits until the work that is queued by then is done.
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

/// Runs `work` on the queue. Returns `false` if memory for the work item cannot be allocated with
/// `flags`, which must not wait for memory if the caller serves a put or a get.
///
/// May be used by calls of guests, commands, and work of the queue. All of them end before the
/// queue is destroyed (`Module` in `main.rs`), and none begins before it is created.
pub(crate) fn spawn(flags: Flags, work: impl FnOnce() + Send + 'static) -> bool {
    // SAFETY: The callers run only while the queue exists, as the function's documentation
    // requires.
    let queue = unsafe { Queue::from_raw(dd_queue_get()) };
    queue.try_spawn(flags, work).is_ok()
}

/// A kind of background work that at most one task does at a time.
pub(crate) struct Single(Atomic<bool>);

impl Single {
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(false))
    }

    /// Claims the work. Returns `false` if it is claimed already.
    pub(crate) fn claim(&self) -> bool {
        !self.is_claimed() && !self.0.xchg(true, Full)
    }

    /// Runs `work` on the queue after it was claimed. `work` has to call [`Single::end`] when it is
    /// done. If it cannot be queued, the claim ends.
    pub(crate) fn run(&self, work: impl FnOnce() + Send + 'static) {
        if !spawn(without_waiting(), work) {
            self.end();
        }
    }

    /// Ends the claim, so that another task can do the work.
    pub(crate) fn end(&self) {
        self.0.xchg(false, Full);
    }

    /// Returns whether the work is claimed.
    pub(crate) fn is_claimed(&self) -> bool {
        self.0.load(Acquire)
    }
}

/// Whether something is to be done by the task that has claimed a [`Single`].
pub(crate) struct Mark(Atomic<bool>);

impl Mark {
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(false))
    }

    /// Sets the mark. If the work is claimed afterwards, its task sees the mark before or after it
    /// ends its claim.
    pub(crate) fn mark(&self) {
        self.0.xchg(true, Full);
    }

    /// Returns whether the mark is set.
    pub(crate) fn is_marked(&self) -> bool {
        self.0.load(Acquire)
    }

    /// Removes the mark. Returns whether it was set.
    pub(crate) fn take(&self) -> bool {
        self.is_marked() && self.0.xchg(false, Full)
    }
}

/// Returns the queue, for the work of a VM that has ended.
///
/// # Safety
///
/// A [`WorkQueue`] exists, and outlives all uses of the result.
pub(crate) unsafe fn queue<'a>() -> &'a Queue {
    // SAFETY: By the function's contract.
    unsafe { Queue::from_raw(dd_queue_get()) }
}

/// Makes the background evictor run soon. May be used by the same callers as [`spawn`].
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
