// SPDX-License-Identifier: GPL-2.0-only

//! Runs the lockless protocols under `loom`, in all orders in which CPUs can execute them and
//! observe each other's writes.
//!
//! Each protocol is also run with an injected fault, which must be detected.

mod account;
mod current_session;
mod limit;
mod link;
mod number;
mod sequence;
mod standing;

/// Maximum number of preemptions in one order of execution. Higher numbers make the tests slow and
/// have found no error that three preemptions do not find.
const INTERRUPTIONS: usize = 3;

/// Runs a test in all orders of execution.
fn check(test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(INTERRUPTIONS);
    model.check(test);
}
