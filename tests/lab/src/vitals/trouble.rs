// SPDX-License-Identifier: GPL-2.0-only

//! Why waiting for a machine is pointless.

use std::fmt;

use super::pulse::Stuck;

/// What is wrong with a machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Trouble {
    /// Its process ended, like this: with success, too, if its processor was reset.
    Ended(String),
    /// It makes no progress.
    Stuck(Stuck),
    /// Its kernel says so.
    Unwell {
        /// The words that say it.
        what: String,
        /// Where they are in its console's log.
        at: usize,
    },
}

impl fmt::Display for Trouble {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(how) => write!(to, "ended unexpectedly ({how})"),
            Self::Stuck(how) => how.fmt(to),
            Self::Unwell { what, .. } => write!(to, "is unwell: {what}"),
        }
    }
}
