// SPDX-License-Identifier: GPL-2.0-only

//! Tests of the daemon of a host: its loop around a module in memory, its documents, and the
//! program.

mod binary;
mod document;
mod dry_run;
mod page;
mod runtime;
mod schema;
mod world;
