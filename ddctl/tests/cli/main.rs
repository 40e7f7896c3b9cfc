// SPDX-License-Identifier: GPL-2.0-only

//! Runs each verb with modules in memory, and checks its output, its exit code and its changes.

mod bad_input;
mod binary;
mod completion;
mod doctor;
mod guest;
mod help;
mod host;
mod impostor;
mod libvirt;
mod picture;
mod policy;
mod save;
mod schema;
mod simulate;
mod support_bundle;
mod top;
mod watch;
mod width;
mod world;
