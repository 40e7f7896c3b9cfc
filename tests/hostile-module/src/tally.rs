// SPDX-License-Identifier: GPL-2.0-only

//! Counters, which are shown as module parameters.

use crate::ffi;
use ddabi::hypercall::Outcome;

/// Counters in the order of shim/workers.c. Those of the statuses follow `Ok` in the order of their
/// numbers.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Count {
    /// Requests sent.
    Sent = 0,
    /// Requests done; counters of refusals follow.
    Ok = 1,
    /// Answers with an undocumented status.
    Unknown = 10,
    /// Pages stored.
    Stored = 11,
    /// Pages given back.
    Given = 12,
    /// Pages given back with other content than was put.
    Foreign = 13,
    /// Requests that were executed although their session or number cannot be valid.
    LetIn = 14,
    /// Pages from and to memory that is plugged in and unplugged.
    Moved = 15,
}

/// Adds to a counter.
pub(crate) fn add(count: Count, amount: u64) {
    ffi::tally(count as u32, amount);
}

/// Counts an answer.
pub(crate) fn answer(outcome: Option<Outcome>) {
    add(Count::Sent, 1);
    match outcome {
        Some(outcome) => ffi::tally(Count::Ok as u32 + u32::from(outcome.status as u8), 1),
        None => add(Count::Unknown, 1),
    }
}
