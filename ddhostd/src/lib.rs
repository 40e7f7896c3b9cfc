// SPDX-License-Identifier: GPL-2.0-only

//! The daemon of a host: keeps the weights of VMs, the sizes of the memory tier and the devices of
//! the SSD tier.
//!
//! - [`cli`]: the command line;
//! - [`keeper`]: decides which VM gets which weight, without I/O;
//! - [`disks`]: decides which devices are added to the SSD tier, without I/O;
//! - [`runtime`]: the daemon's loop;
//! - [`module`], [`names`], [`data_checks`]: the kernel module, the names of VMs, and whether
//!   devices contain data;
//! - [`check`], [`dry_run`]: what is in a file, and what the daemon would do;
//! - [`schema`]: the JSON of all verbs;
//! - [`report`], [`metrics`]: the state of the daemon, for people and for Prometheus;
//! - [`accumulator`]: sums of the module's counters that do not fall when containers are removed;
//! - [`containers`]: the containers that are on the page of metrics.
//!
//! The file is parsed by [`ddvm::config`]. See `docs/users/ddhostd.md`.

#![forbid(unsafe_code)]

pub mod accumulator;
pub mod check;
pub mod cli;
pub mod containers;
pub mod data_checks;
pub mod disks;
pub mod dry_run;
pub mod keeper;
pub mod metrics;
pub mod module;
pub mod names;
pub mod report;
pub mod runtime;
pub mod schema;
