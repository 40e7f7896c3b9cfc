// SPDX-License-Identifier: GPL-2.0

//! Measuring: cgroups, the machine, and what applications say.

mod exposition;

pub use exposition::{Found, Metric};
