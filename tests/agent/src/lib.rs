// SPDX-License-Identifier: GPL-2.0-only

//! Agent that runs as PID 1 inside the test machines.
//!
//! The library is shared by both ends: the protocol over the virtio-serial port, the digest of a
//! file tree, so that checksums made inside and outside of a guest are comparable, the resources
//! that a process uses, the control socket of a VMM, and interactive access to a machine.

pub mod digest;
pub mod protocol;
pub mod qmp;
pub mod terminal;
pub mod usage;
