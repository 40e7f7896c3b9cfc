// SPDX-License-Identifier: GPL-2.0-only

//! Implementations of `Number` for the model checker.

use ddcore::number::Number;
use loom::sync::atomic::{
    AtomicU64,
    Ordering::{self, AcqRel, Acquire, Relaxed},
};

/// A number with the memory ordering that the trait requires. It must not fall below zero.
#[derive(Debug)]
pub(crate) struct OrderedNumber(AtomicU64);

impl Number for OrderedNumber {
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }
    fn load(&self) -> u64 {
        self.0.load(Acquire)
    }
    fn swap(&self, value: u64) -> u64 {
        self.0.swap(value, AcqRel)
    }
    fn replace(&self, from: u64, to: u64) -> Result<(), u64> {
        replace(&self.0, (from, to), AcqRel, Acquire)
    }
    fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }
    fn subtract(&self, amount: u64) {
        let before = self.0.fetch_sub(amount, Relaxed);
        assert!(
            before >= amount,
            "{amount} pages of {before} were subtracted"
        );
    }
}

/// A number whose operations all have *relaxed* ordering.
#[derive(Debug)]
pub(crate) struct RelaxedNumber(AtomicU64);

impl Number for RelaxedNumber {
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }
    fn load(&self) -> u64 {
        self.0.load(Relaxed)
    }
    fn swap(&self, value: u64) -> u64 {
        self.0.swap(value, Relaxed)
    }
    fn replace(&self, from: u64, to: u64) -> Result<(), u64> {
        replace(&self.0, (from, to), Relaxed, Relaxed)
    }
    fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }
    fn subtract(&self, amount: u64) {
        self.0.fetch_sub(amount, Relaxed);
    }
}

fn replace(
    number: &AtomicU64,
    (from, to): (u64, u64),
    success: Ordering,
    failure: Ordering,
) -> Result<(), u64> {
    number
        .compare_exchange(from, to, success, failure)
        .map(|_| ())
}
