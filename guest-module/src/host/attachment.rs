// SPDX-License-Identifier: GPL-2.0-only

//! Whether the hooks are attached to the kernel, and when a failed attempt is repeated.

use crate::host::schedule::MINUTE;
use kernel::prelude::*;
use kernel::sync::atomic::{
    ordering::{Full, Relaxed},
    Atomic,
};

/// Time until a failed attempt to attach is repeated. It doubles with each failure.
const FIRST_RETRY: u64 = MINUTE;
/// Maximum time between two attempts.
const LAST_RETRY: u64 = 32 * MINUTE;

/// The state of the hooks. Only the worker uses it. Times are nanoseconds of [`Schedule::now`].
///
/// [`Schedule::now`]: crate::host::schedule::Schedule::now
pub(crate) struct Attachment {
    attached: Atomic<bool>,
    /// Time of the last attempt if it failed, else 0.
    failed_at: Atomic<u64>,
    /// Time between that attempt and the next one.
    retry_after: Atomic<u64>,
    /// The error that was reported last, so that it is not reported again.
    reported: Atomic<i32>,
}

impl Attachment {
    /// Returns the state before the first attempt.
    pub(crate) fn new() -> Self {
        Self {
            attached: Atomic::new(false),
            failed_at: Atomic::new(0),
            retry_after: Atomic::new(0),
            reported: Atomic::new(0),
        }
    }

    /// Returns whether hooks are attached.
    pub(crate) fn is_attached(&self) -> bool {
        self.attached.load(Relaxed)
    }

    /// Records that hooks are attached.
    pub(crate) fn set_attached(&self) {
        self.attached.store(true, Relaxed);
    }

    /// Records that hooks are about to be detached. Returns `false` if they are not attached.
    pub(crate) fn take_attached(&self) -> bool {
        self.attached.xchg(false, Full)
    }

    /// Returns whether the last attempt failed so recently that it is not repeated yet.
    pub(crate) fn waits(&self, now: u64) -> bool {
        let failed = self.failed_at.load(Relaxed);
        let passed = now.saturating_sub(failed);
        failed != 0 && passed < self.retry_after.load(Relaxed)
    }

    /// Records that an attempt succeeded.
    pub(crate) fn succeeded(&self) {
        self.failed_at.store(0, Relaxed);
        self.reported.store(0, Relaxed);
    }

    /// Records that an attempt failed. Returns whether the error is to be reported.
    pub(crate) fn failed(&self, now: u64, error: Error) -> bool {
        let again = self.failed_at.load(Relaxed) != 0;
        let retry = match self.retry_after.load(Relaxed) {
            last if again => last.saturating_mul(2).min(LAST_RETRY),
            _ => FIRST_RETRY,
        };
        self.retry_after.store(retry, Relaxed);
        self.failed_at.store(now, Relaxed);
        let error = error.to_errno();
        self.reported.xchg(error, Full) != error
    }
}
