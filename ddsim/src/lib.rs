// SPDX-License-Identifier: GPL-2.0-only

//! A deterministic simulator: guest page caches with container limits, the host's store, a disk.
//!
//! Store, shares, policies and curves are those of `ddcore`, the same source that runs in the
//! modules; their environment is modelled here. The simulator reads no clock, and all its random
//! numbers have a seed: the same arguments give the same result.
//!
//! - [`replay`] runs one stream of page accesses through one container, for hit ratios;
//! - [`bound`] has the optimum that no policy exceeds, and an inclusive cache;
//! - [`table`] compares all policies, and [`goal`] judges the default;
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
