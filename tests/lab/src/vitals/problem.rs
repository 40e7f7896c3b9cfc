// SPDX-License-Identifier: GPL-2.0-only

//! Reasons why waiting for a machine is pointless.

use std::fmt;

use super::progress::Stall;

/// Problem of a machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Problem {
    /// Its process ended in this way, which may be a success if its processor was reset.
    Ended(String),
    /// It makes no progress.
    Stall(Stall),
    /// Its kernel reports a problem.
    Unwell {
        /// The words of the report.
        what: String,
        /// Their offset in the log of its console.
        at: usize,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(how) => write!(to, "ended unexpectedly ({how})"),
            Self::Stall(how) => how.fmt(to),
            Self::Unwell { what, .. } => write!(to, "is unwell: {what}"),
        }
    }
}
