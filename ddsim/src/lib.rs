// SPDX-License-Identifier: GPL-2.0-only

//! A deterministic simulator: guest page caches with container limits, the host's store, a disk.
//!
//! The store, its shares, its policies and its curves are `ddcore`'s, the very source that runs
//! in the modules; what surrounds them is modelled here. Nothing reads a clock or draws a random
//! number that is not seeded: the same arguments give the same result.
//!
//! - [`replay`] runs one stream of page accesses through one container, for hit ratios;
//! - [`bound`] is what no policy can beat, and what an inclusive cache would do;
//! - [`table`] sets all policies side by side, [`goal`] judges the default;
//! - [`advice`] says what would have been best for recorded traces;
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
