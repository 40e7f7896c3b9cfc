// SPDX-License-Identifier: GPL-2.0

//! Why waiting for a machine is pointless.

use std::fmt;

use super::pulse::Stuck;

/// A machine that ended without a word, for its processor was reset. Kernels do not go like
/// that; processors do that are emulated not quite right.
#[derive(Debug)]
pub(crate) struct Vanished(pub(super) String);

impl fmt::Display for Vanished {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for Vanished {}

/// What is wrong with a machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Trouble {
    /// Its process ended, like this; by itself if that was a success.
    Ended {
        /// In words.
        how: String,
        /// As if all were well.
        success: bool,
    },
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
            Self::Ended { how, .. } => write!(to, "ended unexpectedly ({how})"),
            Self::Stuck(how) => how.fmt(to),
            Self::Unwell { what, .. } => write!(to, "is unwell: {what}"),
        }
    }
}
