// SPDX-License-Identifier: GPL-2.0

//! Everything C: the shim's functions and structures, and safe wrappers of the kernel's objects.
//!
//! The entry points that C calls are in `entry.rs`.

/// The kernel's structures, which only C looks into.
macro_rules! opaque {
    ($($name:ident: $what:literal),* $(,)?) => {$(
        #[doc = $what]
        #[repr(C)]
        pub(crate) struct $name {
            _opaque: [u8; 0],
        }
    )*};
}
use opaque;

pub(crate) mod cgroup;
pub(crate) mod cpu;
pub(crate) mod folio;
pub(crate) mod hooks;
pub(crate) mod machine;
pub(crate) mod mapping;
pub(crate) mod published;
pub(crate) mod readahead;
pub(crate) mod worker;
