// SPDX-License-Identifier: GPL-2.0

//! What protects a value that threads share.

use core::cell::RefCell;
use core::ops::DerefMut;

/// A lock with the value that it protects.
pub trait Lock<T> {
    /// Makes a lock that is free.
    fn new(value: T) -> Self;

    /// Waits for the lock.
    fn lock(&self) -> impl DerefMut<Target = T>;

    /// Takes the lock if it is free.
    fn try_lock(&self) -> Option<impl DerefMut<Target = T>>;

    /// The value, which no other thread can reach.
    fn get_mut(&mut self) -> &mut T;
}

/// For one thread, which panics if it takes a lock twice: the engine never holds two shards, or
/// calls its owner with one of them locked.
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
