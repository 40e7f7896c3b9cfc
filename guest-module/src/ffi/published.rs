// SPDX-License-Identifier: GPL-2.0

//! The module's state, for callbacks.

use kernel::sync::atomic::{ordering::Acquire, ordering::Release, Atomic};

/// A place for the module's state that C's callbacks can reach.
pub(crate) struct Published<T>(Atomic<*mut T>);

impl<T> Published<T> {
    /// Nothing published.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(core::ptr::null_mut()))
    }

    /// Publishes `value`.
    ///
    /// # Safety
    ///
    /// `value` must live until [`Published::withdraw`], and callbacks must have ended then.
    pub(crate) unsafe fn publish(&self, value: &T) {
        self.0.store(core::ptr::from_ref(value).cast_mut(), Release);
    }

    /// Nothing is published any more.
    pub(crate) fn withdraw(&self) {
        self.0.store(core::ptr::null_mut(), Release);
    }

    /// What is published. Only for callbacks, see [`Published::publish`].
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: By the contract of `publish`.
        unsafe { self.0.load(Acquire).as_ref() }
    }
}
