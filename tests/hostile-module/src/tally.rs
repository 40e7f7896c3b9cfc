// SPDX-License-Identifier: GPL-2.0-only

//! What is counted, and shown as module parameters.

use crate::ffi;
use ddabi::hypercall::Outcome;

/// In the order of shim/crew.c. The statuses follow `Ok` as their numbers do.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Count {
    /// Requests sent.
    Sent = 0,
    /// Requests done; refusals follow.
    Ok = 1,
    /// Answers that are no documented status.
    Unknown = 10,
    /// Pages stored.
    Stored = 11,
    /// Pages given back.
    Given = 12,
    /// Pages given that are not what was put.
    Foreign = 13,
    /// Requests that were done though no session or number of theirs can be right.
    LetIn = 14,
    /// Pages from memory that comes and goes, and to it.
    Moved = 15,
}

/// Counts.
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
