// SPDX-License-Identifier: GPL-2.0-only

use crate::host::heap::Lock;
use core::cell::{Cell, RefCell};
use core::ops::{Deref, DerefMut};

/// A lock that can be set to be held by another task. [`Lock::try_lock`] fails then, and
/// [`Lock::lock`] returns after the other task has released it.
pub(crate) struct Contended<T> {
    value: RefCell<T>,
    /// Whether another task holds the lock when a caller tries it.
    pub(crate) held: Cell<bool>,
}

impl<T> Lock<T> for Contended<T> {
    fn new(value: T) -> Self {
        Self {
            value: RefCell::new(value),
            held: Cell::new(false),
        }
    }

    fn lock(&self) -> impl DerefMut<Target = T> {
        self.value.borrow_mut()
    }

    fn try_lock(&self) -> Option<impl DerefMut<Target = T>> {
        self.value
            .try_borrow_mut()
            .ok()
            .filter(|_| !self.held.get())
    }

    fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T> Deref for Contended<T> {
    type Target = RefCell<T>;

    fn deref(&self) -> &RefCell<T> {
        &self.value
    }
}
