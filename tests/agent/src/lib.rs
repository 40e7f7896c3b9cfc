// SPDX-License-Identifier: GPL-2.0-only

//! Agent that runs as PID 1 inside the test machines.
//!
//! The library half is what both ends share: the protocol spoken over the
//! virtio-serial port, the digest of a file tree, so that a checksum made
//! outside a guest is comparable with one made inside, a VM's progress, a VMM's
//! control socket, and a person's way into a machine.

pub mod cpu;
pub mod digest;
pub mod protocol;
pub mod qmp;
pub mod terminal;
