// SPDX-License-Identifier: GPL-2.0-only

//! Code that runs inside functions of the kernel: [`entry`] is called by the shim, [`put`] and
//! [`read`] carry pages out and in, and [`departures`] holds folios between removal and freeing.

pub(crate) mod departures;
pub(crate) mod entry;
pub(crate) mod put;
pub(crate) mod read;
