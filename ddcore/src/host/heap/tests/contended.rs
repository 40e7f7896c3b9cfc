// SPDX-License-Identifier: GPL-2.0-only

use crate::host::heap::Lock;
use core::cell::{Cell, RefCell, RefMut};
use core::ops::{Deref, DerefMut};

std::thread_local! {
    /// Number of these locks that the thread holds.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Returns whether the thread holds any of these locks.
pub(crate) fn is_any_held() -> bool {
    HELD.get() > 0
}

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
        Guard::new(self.value.borrow_mut())
    }

    fn try_lock(&self) -> Option<impl DerefMut<Target = T>> {
        let guard = self.value.try_borrow_mut().ok();
        guard.filter(|_| !self.held.get()).map(Guard::new)
    }

    fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// The right to access the value of a locked [`Contended`].
struct Guard<'a, T>(RefMut<'a, T>);

impl<'a, T> Guard<'a, T> {
    fn new(value: RefMut<'a, T>) -> Self {
        HELD.set(HELD.get() + 1);
        Self(value)
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Deref for Contended<T> {
    type Target = RefCell<T>;

    fn deref(&self) -> &RefCell<T> {
        &self.value
    }
}
