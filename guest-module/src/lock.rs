// SPDX-License-Identifier: GPL-2.0

//! A spinlock that keeps interrupts off.
//!
//! Our locks are taken under `i_pages`, which interrupts take too; see `docs/locking.md`.

use crate::ffi::cpu::InterruptsOff;
use kernel::prelude::*;
use kernel::sync::{LockClassKey, SpinLock};

/// Data behind a spinlock, reachable from any context but NMI.
#[pin_data]
pub(crate) struct IrqLock<T> {
    #[pin]
    inner: SpinLock<T>,
}

impl<T: Unpin> IrqLock<T> {
    /// A lock of its own class; `name` appears in lockdep's reports.
    pub(crate) fn new(
        value: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self { inner <- SpinLock::new(value, name, key) })
    }

    /// Runs `work` with the lock held and interrupts off.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let _off = InterruptsOff::new();
        let mut guard = self.inner.lock();
        work(&mut guard)
    }
}

/// Makes an [`IrqLock`] with a lock class of its own.
macro_rules! new_irq_lock {
    ($value:expr, $name:literal) => {
        $crate::lock::IrqLock::new($value, kernel::c_str!($name), kernel::static_lock_class!())
    };
}
pub(crate) use new_irq_lock;
