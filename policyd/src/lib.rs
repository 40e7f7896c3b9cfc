// SPDX-License-Identifier: GPL-2.0

//! The policy daemon of a guest: keeps the guest module's pools as a file describes them.
//!
//! - [`config`]: the file;
//! - [`engine`]: decides, without I/O and without a clock;
//! - [`runtime`]: performs what the engine decides, and tells it what happened;
//! - [`tree`], [`module`], [`service`]: the cgroups, the kernel module, the service manager.
//!
//! See `docs/policyd.md`.

#![forbid(unsafe_code)]

pub mod config;
pub mod discovery;
pub mod engine;
pub mod measure;
pub mod module;
pub mod runtime;
pub mod service;
pub mod tree;
