// SPDX-License-Identifier: GPL-2.0-only

//! Errors of a verb, which are those of all programs.

pub use ddnl::{Kind, ProgramError as Error};

/// Result with the error of a verb.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;
