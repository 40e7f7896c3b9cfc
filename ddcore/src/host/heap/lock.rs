// SPDX-License-Identifier: GPL-2.0-only

//! Interface of a lock.

use core::cell::RefCell;
use core::ops::DerefMut;

/// A lock with the value that it protects.
pub trait Lock<T> {
    /// Creates an unlocked lock.
    fn new(value: T) -> Self;

    /// Takes the lock, and waits for it if necessary.
    fn lock(&self) -> impl DerefMut<Target = T>;

    /// Takes the lock if it is free.
    fn try_lock(&self) -> Option<impl DerefMut<Target = T>>;

    /// Returns the value without locking, because no other thread can access it.
    fn get_mut(&mut self) -> &mut T;
}

/// A lock for a single thread. It panics if it is taken twice. Tests thus detect if the engine
/// takes a lock that it already holds, for example by calling its owner with a shard locked.
impl<T> Lock<T> for RefCell<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    #[inline]
    fn lock(&self) -> impl DerefMut<Target = T> {
        self.borrow_mut()
    }

    #[inline]
    fn try_lock(&self) -> Option<impl DerefMut<Target = T>> {
        self.try_borrow_mut().ok()
    }

    fn get_mut(&mut self) -> &mut T {
        self.get_mut()
    }
}
