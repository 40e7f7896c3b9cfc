// SPDX-License-Identifier: GPL-2.0

//! What the module does in the kernel's functions: [`entry`] is called by the shim, [`put`] and
//! [`read`] carry pages out and in, [`departures`] holds folios between removal and freeing.

pub(crate) mod departures;
pub(crate) mod entry;
pub(crate) mod put;
pub(crate) mod read;
