// SPDX-License-Identifier: GPL-2.0-only

//! Code that runs inside functions of the kernel: [`entry`] is called by the shim, [`put`] sends
//! pages to the host, [`read`] gets them back, and [`departures`] records folios between removal
//! and freeing.

pub(crate) mod departures;
pub(crate) mod entry;
pub(crate) mod put;
pub(crate) mod read;
