// SPDX-License-Identifier: GPL-2.0-only

//! Interface to atomic numbers.
//!
//! The kernel has its own memory model and atomics, and so does a model checker. Users of
//! [`account`](crate::account), [`clock`](crate::clock), [`limit`](crate::limit) and
//! [`link`](crate::link) therefore provide the numbers. The feature `heap` implements the trait for
//! the atomics of Rust's standard library.

#[cfg(any(test, feature = "heap"))]
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// An atomic number.
pub trait Number {
    /// Creates a number with this value.
    fn new(value: u64) -> Self;

    /// Returns the value, with *acquire* ordering: writes before the value was set are visible
    /// afterwards.
    fn load(&self) -> u64;

    /// Replaces the value and returns the previous one, with *acquire* and *release* ordering:
    /// threads that see the new value see earlier writes of this thread, and this thread sees the
    /// writes before the previous value.
    fn swap(&self, value: u64) -> u64;

    /// Sets the value to `to` if it is `from`, and otherwise returns it as the error. Ordered like
    /// [`Number::swap`].
    fn replace(&self, from: u64, to: u64) -> Result<(), u64>;

    /// Adds to the value, with *relaxed* ordering.
    fn add(&self, amount: u64);

    /// Subtracts an amount that was added before, with *relaxed* ordering. The value must not fall
    /// below zero, not even for a moment, because other processors may read it.
    fn subtract(&self, amount: u64);
}

/// Implementation for use outside of kernels. [`Number::swap`] and [`Number::replace`] are
/// read-modify-write operations, so that *acquire* and *release* provide the ordering that the
/// trait requires.
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
        let before = self.fetch_sub(amount, Relaxed);
        debug_assert!(before >= amount, "{amount} of {before} are subtracted");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    /// A number for tests with a single thread.
    pub(crate) type Plain = core::sync::atomic::AtomicU64;
}
