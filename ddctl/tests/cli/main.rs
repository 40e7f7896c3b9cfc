// SPDX-License-Identifier: GPL-2.0-only

//! Every verb against modules in memory: what it prints, how it ends, and what it changed.

mod bad_input;
mod binary;
mod completion;
mod doctor;
mod guest;
mod help;
mod host;
mod impostor;
mod picture;
mod policy;
mod save;
mod schema;
mod simulate;
mod support_bundle;
mod top;
mod watch;
mod world;
