// SPDX-License-Identifier: GPL-2.0-only

//! The papers' experiments, replayed at their sizes: `ddsim` is the machine, and `policyd`'s engine
//! controls it where targets are given.
//!
//! This is a separate crate, because `ddctl` uses the simulator too and must not depend on the
//! daemon.

#![forbid(unsafe_code)]

pub mod control;
pub mod figure;
pub mod goal;
pub mod outcome;
pub mod verdict;
