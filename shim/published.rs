// SPDX-License-Identifier: GPL-2.0-only

//! Publishes the module's state to callbacks of the kernel, which get no pointer from the module.
//! Compiled into both modules (`#[path]`).

use kernel::sync::atomic::{ordering::Acquire, ordering::Release, Atomic};

/// A pointer to a value that callbacks can access while it is published.
pub(crate) struct Published<T>(Atomic<*mut T>);

impl<T> Published<T> {
    /// Returns a null pointer.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(core::ptr::null_mut()))
    }

    /// Publishes `value`.
    ///
    /// # Safety
    ///
    /// `value` must live until [`Published::withdraw`], and all callbacks must have ended then.
    pub(crate) unsafe fn publish(&self, value: &T) {
        self.0.store(core::ptr::from_ref(value).cast_mut(), Release);
    }

    /// Withdraws the value.
    pub(crate) fn withdraw(&self) {
        self.0.store(core::ptr::null_mut(), Release);
    }

    /// Returns the value while it is published. Only callbacks may call this; see
    /// [`Published::publish`].
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: By the contract of `publish`.
        unsafe { self.0.load(Acquire).as_ref() }
    }
}
