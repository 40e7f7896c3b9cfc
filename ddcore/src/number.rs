// SPDX-License-Identifier: GPL-2.0

//! What the shared crates know of memory that processors change without a lock.
//!
//! The kernel has a memory model of its own, and so has a model checker: the users of
//! [`account`](crate::account), [`clock`](crate::clock), [`limit`](crate::limit) and
//! [`link`](crate::link) bring the numbers.

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

#[cfg(test)]
pub(crate) mod tests {
    use super::Number;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    /// For tests of one thread.
    #[derive(Debug)]
    pub(crate) struct Plain(AtomicU64);

    impl Number for Plain {
        fn new(value: u64) -> Self {
            Self(AtomicU64::new(value))
        }
        fn load(&self) -> u64 {
            self.0.load(SeqCst)
        }
        fn swap(&self, value: u64) -> u64 {
            self.0.swap(value, SeqCst)
        }
        fn replace(&self, from: u64, to: u64) -> Result<(), u64> {
            let replaced = self.0.compare_exchange(from, to, SeqCst, SeqCst);
            replaced.map(|_| ())
        }
        fn add(&self, amount: u64) {
            self.0.fetch_add(amount, SeqCst);
        }
        fn subtract(&self, amount: u64) {
            self.0.fetch_sub(amount, SeqCst);
        }
    }
}
