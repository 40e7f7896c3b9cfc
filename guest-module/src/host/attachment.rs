// SPDX-License-Identifier: GPL-2.0

//! Whether the hooks are attached to the kernel, and when a refused attempt is made again.

use crate::host::schedule::MINUTE;
use crate::mutation::mutated;
use kernel::prelude::*;
use kernel::sync::atomic::{
    ordering::{Full, Relaxed},
    Atomic,
};

/// Time until a kernel that did not let us attach is tried again; it doubles with each failure.
const FIRST_RETRY: u64 = MINUTE;
/// But is not longer than this.
const LAST_RETRY: u64 = 32 * MINUTE;

/// Whether hooks are attached. Worker only. Times are those of the `Schedule`.
pub(crate) struct Attachment {
    attached: Atomic<bool>,
    /// When we could not attach; 0 if we could.
    failed_at: Atomic<u64>,
    /// Time from then to the next try.
    retry_after: Atomic<u64>,
    /// Why we could not, as it was last reported.
    reported: Atomic<i32>,
}

impl Attachment {
    /// Not attached.
    pub(crate) fn new() -> Self {
        Self {
            attached: Atomic::new(false),
            failed_at: Atomic::new(0),
            retry_after: Atomic::new(0),
            reported: Atomic::new(0),
        }
    }

    /// Whether hooks are attached.
    pub(crate) fn is_attached(&self) -> bool {
        self.attached.load(Relaxed)
    }

    /// Hooks are attached.
    pub(crate) fn set_attached(&self) {
        self.attached.store(true, Relaxed);
    }

    /// Hooks are to be detached; `false` if there are none.
    pub(crate) fn take_attached(&self) -> bool {
        self.attached.xchg(false, Full)
    }

    /// Whether the kernel did not let us attach, too short a time ago to try again.
    pub(crate) fn waits(&self, now: u64) -> bool {
        let failed = self.failed_at.load(Relaxed);
        let passed = now.saturating_sub(failed);
        failed != 0
            && passed < self.retry_after.load(Relaxed)
            && !mutated(c"attaches-at-every-look")
    }

    /// The kernel let us attach.
    pub(crate) fn succeeded(&self) {
        self.failed_at.store(0, Relaxed);
        self.reported.store(0, Relaxed);
    }

    /// The kernel did not let us attach. Returns whether users are to be told.
    pub(crate) fn failed(&self, now: u64, error: Error) -> bool {
        let again = self.failed_at.load(Relaxed) != 0;
        let retry = match self.retry_after.load(Relaxed) {
            last if again => last.saturating_mul(2).min(LAST_RETRY),
            _ => FIRST_RETRY,
        };
        self.retry_after.store(retry, Relaxed);
        self.failed_at.store(now, Relaxed);
        let error = error.to_errno();
        self.reported.xchg(error, Full) != error || mutated(c"attaches-at-every-look")
    }
}
