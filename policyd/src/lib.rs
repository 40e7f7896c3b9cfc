// SPDX-License-Identifier: GPL-2.0-only

//! The policy daemon of a guest: gives containers what a file promises them.
//!
//! - [`cli`], [`config`]: the command line, the file;
//! - [`engine`]: decides, without I/O and without a clock;
//! - [`runtime`]: performs what the engine decides, and tells it what happened;
//! - [`tree`], [`discovery`]: the cgroups, and who they are;
//! - [`measure`], [`cgroup_writer`]: reading figures, writing limits;
//! - [`module`]: the kernel module;
//! - [`metrics`]: the report for Prometheus.
//!
//! See `docs/policyd.md`.

#![forbid(unsafe_code)]

pub mod allowance;
pub mod cgroup_writer;
pub mod cli;
pub mod config;
pub mod discovery;
pub mod engine;
pub mod measure;
pub mod metrics;
pub mod module;
mod regular;
pub mod runtime;
pub mod tree;
