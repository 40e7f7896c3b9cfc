// SPDX-License-Identifier: GPL-2.0-only

//! What the scenarios run inside their machines.
//!
//! The library half is what both ends share: the [`churn`], a seeded series of
//! file operations. The program does them in a guest, and a scenario replays
//! them on bytes outside it; and the [`kind`]s of operations a torture counts.

pub mod churn;
pub mod kind;

/// A machine's file, locked by the task that freezes a filesystem or puts the machine to sleep: its
/// kernel freezes filesystems then too, and warns when it finds one frozen.
pub const FREEZING: &str = "/run/freezing";
