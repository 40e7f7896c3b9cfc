// SPDX-License-Identifier: GPL-2.0

//! Every byte that crosses guest to host and kernel to user.
//!
//! - [`hypercall`]: registers, operations and statuses of a call;
//! - [`request`] and [`answer`]: the two pages of a call in guest memory;
//! - [`key`]: how a page of a file is named;
//! - [`pool`]: weights, stores, and what a pool counts;
//! - [`name`]: how a pool is called;
//! - [`policy`]: which pages of a container are worth keeping;
//! - [`counters`]: what each module counts about itself;
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

/// Version of everything in this crate; a peer with another one is refused with a clear status.
pub const ABI_VERSION: u16 = 2;

/// Version of modules and tools: that of the workspace in `Cargo.toml`, which Kbuild reads, too.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Bytes of a page. Guests with another page size are refused.
pub const PAGE_SIZE: usize = 4096;

/// Longest name of a pool or a VM in bytes, without a terminating zero.
pub const NAME_LEN: usize = 64;
