// SPDX-License-Identifier: GPL-2.0-only

//! The daemon of a host: its loop around a module in memory, its documents, and the program itself.

mod binary;
mod document;
mod page;
mod rehearsal;
mod runtime;
mod world;
