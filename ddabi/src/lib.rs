// SPDX-License-Identifier: GPL-2.0-only

//! Layout of all data that crosses from guest to host and from kernel to user space.
//!
//! - [`hypercall`]: registers, operations and statuses of a call;
//! - [`request`] and [`answer`]: the two pages of a call in guest memory;
//! - [`key`]: keys of files and pages;
//! - [`pool`]: weights, stores and counters of a pool;
//! - [`name`]: names of pools;
//! - [`policy`]: policies of containers;
//! - [`counters`]: counters of each module;
//! - [`genl`]: generic netlink commands and attributes of both modules.
//!
//! The crate is compiled twice from this source: by Kbuild into both modules and by cargo into
//! the tools. All integers are little endian (both ends run on x86-64); every layout is checked
//! at compile time.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod answer;
pub mod counters;
pub mod genl;
pub mod hypercall;
pub mod key;
pub mod name;
pub mod policy;
pub mod pool;
pub mod request;
pub mod ssd;

/// Version of all layouts in this crate. A peer with another version is refused.
pub const ABI_VERSION: u16 = 3;

/// Version of modules and tools: the version of the workspace in `Cargo.toml`, which Kbuild reads
/// as well.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Bytes of a page. Guests with another page size are refused.
pub const PAGE_SIZE: usize = 4096;

/// Maximum length of the name of a pool or a VM in bytes, without a terminating zero.
pub const NAME_LEN: usize = 64;
