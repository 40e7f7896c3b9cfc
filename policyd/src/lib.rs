// SPDX-License-Identifier: GPL-2.0-only

//! The policy daemon of a guest, which gives containers the shares that its file promises them.
//!
//! - [`cli`], [`config`]: the command line, the file;
//! - [`engine`]: the decisions, without I/O and without a clock;
//! - [`runtime`]: performs the engine's actions, and reports events to it;
//! - [`tree`], [`discovery`]: the cgroups, and the containers they belong to;
//! - [`measure`], [`cgroup_writer`]: read figures, write limits;
//! - [`module`]: the kernel module;
//! - [`check`], [`dry_run`]: what a machine lacks for a file, and what would be changed there;
//! - [`metrics`]: the report for Prometheus;
//! - [`schema`]: the JSON of all verbs.
//!
//! See `docs/users/policyd.md`.

#![forbid(unsafe_code)]

pub mod allowance;
pub mod cgroup_writer;
pub mod check;
pub mod cli;
pub mod config;
pub mod discovery;
pub mod dry_run;
pub mod engine;
pub mod measure;
pub mod metrics;
pub mod module;
mod regular;
pub mod runtime;
pub mod schema;
pub mod tree;
