// SPDX-License-Identifier: GPL-2.0-only

//! Interface to C: functions of the shims, and safe types over kernel objects. Each file here
//! belongs to the file of the same name in `shim/`; [`table`] and [`random`] call the kernel
//! directly.
//!
//! The functions that C calls are in `entry.rs`.

pub(crate) mod disk;
pub(crate) mod kvm;
pub(crate) mod oom;
pub(crate) mod page;
pub(crate) mod param;
pub(crate) mod queue;
pub(crate) mod random;
pub(crate) mod shrinker;
pub(crate) mod table;
pub(crate) mod tracepoints;
