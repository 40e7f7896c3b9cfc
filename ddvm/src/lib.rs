// SPDX-License-Identifier: GPL-2.0-only

//! VMs as their host's administrator knows them, and the file in which the administrator gives
//! them weights.
//!
//! - [`vmm`]: the names of a VM, from the process of its VMM;
//! - [`config`]: `/etc/doubledecker/host.toml`, with [`selector`] for the VMs that an entry is for;
//! - [`document`]: changes of that file which keep comments and order, and [`editor`], which makes
//!   them while other programs change the file too;
//! - [`tier`]: sizes of the memory tier, and which of them are possible;
//! - [`ssd`]: settings of the SSD tier.
//!
//! See `docs/users/ddhostd.md`.

#![forbid(unsafe_code)]

pub mod config;
pub mod document;
pub mod editor;
pub mod selector;
pub mod ssd;
pub mod tier;
pub mod vmm;

pub use config::Config;
pub use editor::Editor;
pub use vmm::Vmm;
