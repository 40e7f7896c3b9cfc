// SPDX-License-Identifier: GPL-2.0-only

//! The daemon around the engine: its file, its loop, and the program itself.

mod binary;
mod check;
mod command;
mod config;
mod discovery;
mod limited;
mod name;
mod page;
mod runtime;
mod schema;
mod source;
mod storm;
mod trust;
