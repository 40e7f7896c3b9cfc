// SPDX-License-Identifier: GPL-2.0-only

//! A spinlock that disables interrupts.
//!
//! The module's spinlocks are taken under `i_pages`, which interrupt handlers take, too. If
//! interrupts were enabled, a handler could wait for `i_pages` while its holder waits for a lock of
//! the task that the handler interrupted (`docs/developers/locking.md`).

use crate::ffi::cpu::InterruptsOff;
use kernel::prelude::*;
use kernel::sync::{LockClassKey, SpinLock};

/// Data behind a spinlock. Any context but NMI may take it.
#[pin_data]
pub(crate) struct IrqLock<T> {
    #[pin]
    inner: SpinLock<T>,
}

impl<T: Unpin> IrqLock<T> {
    /// Returns a lock. `name` and `key` identify its class in lockdep's reports.
    pub(crate) fn new(
        value: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self { inner <- SpinLock::new(value, name, key) })
    }

    /// Calls `work` with the lock held and interrupts disabled.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let _off = InterruptsOff::new();
        let mut guard = self.inner.lock();
        work(&mut guard)
    }
}

/// Creates an [`IrqLock`] with its own lock class.
macro_rules! new_irq_lock {
    ($value:expr, $name:literal) => {
        $crate::lock::IrqLock::new($value, kernel::c_str!($name), kernel::static_lock_class!())
    };
}
pub(crate) use new_irq_lock;
