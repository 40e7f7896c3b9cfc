// SPDX-License-Identifier: GPL-2.0

//! What the shared crates know of memory that processors change without a lock.
//!
//! The kernel has a memory model of its own, and so has a model checker: the users of
//! [`account`](crate::account), [`clock`](crate::clock), [`limit`](crate::limit) and
//! [`link`](crate::link) bring the numbers. With the feature `heap` there are those of the language.

#[cfg(any(test, feature = "heap"))]
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// A number that many processors read and change at a time.
pub trait Number {
    /// One with a value.
    fn new(value: u64) -> Self;

    /// Its value. What was written before that value was set is seen afterwards (*acquire*).
    fn load(&self) -> u64;

    /// Replaces the value and returns the previous one, with *acquire* and *release* ordering:
    /// threads that see the new value see what was written before it, and this thread sees what was
    /// written before the previous one.
    fn swap(&self, value: u64) -> u64;

    /// Sets `to` if the value is `from`; else says what it is. Ordered like [`Number::swap`].
    fn replace(&self, from: u64, to: u64) -> Result<(), u64>;

    /// Adds; in no order with anything else.
    fn add(&self, amount: u64);

    /// Subtracts what was added before; in no order with anything else.
    fn subtract(&self, amount: u64);
}

/// Outside of kernels. [`Number::swap`] and [`Number::replace`] are read-modify-writes, so that
/// acquire and release order all that the trait promises.
#[cfg(any(test, feature = "heap"))]
impl Number for core::sync::atomic::AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    fn load(&self) -> u64 {
        self.load(Acquire)
    }

    fn swap(&self, value: u64) -> u64 {
        self.swap(value, AcqRel)
    }

    fn replace(&self, from: u64, to: u64) -> Result<(), u64> {
        self.compare_exchange(from, to, AcqRel, Acquire).map(|_| ())
    }

    fn add(&self, amount: u64) {
        self.fetch_add(amount, Relaxed);
    }

    fn subtract(&self, amount: u64) {
        self.fetch_sub(amount, Relaxed);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    /// For tests of one thread.
    pub(crate) type Plain = core::sync::atomic::AtomicU64;
}
