// SPDX-License-Identifier: GPL-2.0-only

//! Tests of the daemon of a host: its loop around a module in memory, its documents, and the
//! program.

mod binary;
mod document;
mod page;
mod rehearsal;
mod runtime;
mod world;
