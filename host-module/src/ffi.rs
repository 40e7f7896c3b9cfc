// SPDX-License-Identifier: GPL-2.0-only

//! The module's C: functions of the shim, and safe types over objects of the kernel. Each file here
//! belongs to the file of the same name in `shim/`; [`table`] and [`random`] call the kernel itself.
//!
//! C calls the functions in `entry.rs`.

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
