// SPDX-License-Identifier: GPL-2.0-only

//! The protocols without locks, in all orders in which processors can execute them and see each
//! other's writes, tried by `loom`.
//!
//! Each protocol is also run with a fault, which must be detected.

mod account;
mod current_session;
mod limit;
mod link;
mod number;
mod sequence;
mod standing;

/// Maximum number of preemptions of threads in a tried order. More make the test slow, and have
/// found nothing that three do not.
const INTERRUPTIONS: usize = 3;

/// Runs a test in all orders.
fn check(test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(INTERRUPTIONS);
    model.check(test);
}
