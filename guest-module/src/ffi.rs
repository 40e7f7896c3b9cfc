// SPDX-License-Identifier: GPL-2.0-only

//! Interface to C: functions and structures of the shims, and safe types over kernel objects. Each
//! file here belongs to the file of the same name in `shim/`, and no other Rust file calls C.
//!
//! The functions that C calls are in `hooks/entry.rs`.

/// Declares structures of the kernel that only C code accesses.
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
pub(crate) mod change;
pub(crate) mod cpu;
pub(crate) mod folio;
pub(crate) mod hooks;
pub(crate) mod machine;
pub(crate) mod mapping;
pub(crate) mod readahead;
pub(crate) mod tracepoints;
pub(crate) mod worker;
