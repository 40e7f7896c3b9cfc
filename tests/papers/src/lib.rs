// SPDX-License-Identifier: GPL-2.0-only

//! The papers' experiments, replayed at their sizes: `ddsim` is the machine, `policyd`'s engine
//! the one who sets its knobs where targets are given.
//!
//! A crate of its own, for `ddctl` uses the simulator too and shall not carry the daemon with it.

#![forbid(unsafe_code)]

pub mod control;
pub mod figure;
pub mod goal;
pub mod inputs;
pub mod outcome;
pub mod verdict;
