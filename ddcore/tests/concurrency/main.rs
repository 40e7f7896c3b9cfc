// SPDX-License-Identifier: GPL-2.0-only

//! What is shared without a lock, in all orders in which processors may run and see each other:
//! `loom` tries them one after the other.
//!
//! Each protocol is also run with one step done wrong, which must be found.

mod account;
mod gate;
mod limit;
mod link;
mod number;
mod sequence;
mod standing;

/// Tries all orders in which at most so many threads are interrupted at a moment of their choice.
/// More make it slow, and find nothing that three do not.
const INTERRUPTIONS: usize = 3;

/// Runs a test in all orders.
fn check(test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(INTERRUPTIONS);
    model.check(test);
}
