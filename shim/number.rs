// SPDX-License-Identifier: GPL-2.0-only

//! The kernel's atomics for `ddcore`, compiled into both modules (`#[path]`).

use kernel::sync::atomic::{
    ordering::{Acquire, Full, Relaxed},
    Atomic,
};

/// A number that several CPUs read and change concurrently.
pub(crate) struct Number(Atomic<u64>);

impl ddcore::number::Number for Number {
    fn new(value: u64) -> Self {
        Self(Atomic::new(value))
    }

    fn load(&self) -> u64 {
        self.0.load(Acquire)
    }

    fn swap(&self, value: u64) -> u64 {
        self.0.xchg(value, Full)
    }

    fn replace(&self, from: u64, to: u64) -> Result<(), u64> {
        self.0.cmpxchg(from, to, Full).map(|_| ())
    }

    fn add(&self, amount: u64) {
        self.0.add(amount, Relaxed);
    }

    fn subtract(&self, amount: u64) {
        self.0.fetch_sub(amount, Relaxed);
    }
}
