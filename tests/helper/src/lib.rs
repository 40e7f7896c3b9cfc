// SPDX-License-Identifier: GPL-2.0-only

//! Programs that the scenarios run inside their machines.
//!
//! The library is shared by both ends: the [`churn`], a seeded series of file operations that the
//! program executes in a guest and a scenario replays on bytes outside of it, and the [`kind`]s of
//! operations that a torture counts.

pub mod churn;
pub mod kind;

/// A file in a machine, locked by the task that freezes a filesystem or suspends the machine. The
/// kernel freezes filesystems for a suspend too, and warns if one is frozen already.
pub const FREEZING: &str = "/run/freezing";
