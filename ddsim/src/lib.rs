// SPDX-License-Identifier: GPL-2.0-only

//! A deterministic simulator of guest page caches with container limits, the host's store, and a
//! disk.
//!
//! Store, shares, policies and curves are those of `ddcore`, the same source code that runs in the
//! modules; only their environment is modelled. The simulator reads no clock, and all random
//! numbers are seeded, so that the same arguments give the same result.
//!
//! - [`replay`] runs one stream of page accesses through one container, for hit ratios;
//! - [`bound`] computes the optimum, which no policy exceeds, and simulates an inclusive cache;
//! - [`table`] compares all policies, and [`goal`] checks the default policy against its goals;
//! - [`advice`] computes the best settings for recorded traces;
//! - [`machine`] runs threads of workloads on shared devices, for throughput over time.

#![forbid(unsafe_code)]

pub mod advice;
pub mod bound;
pub mod goal;
pub mod host;
pub mod machine;
pub mod page;
pub mod pagecache;
pub mod parallel;
pub mod parameters;
pub mod random;
pub mod replay;
pub mod stream;
pub mod table;
pub mod trace;
pub mod workload;
