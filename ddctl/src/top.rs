// SPDX-License-Identifier: GPL-2.0-only

//! State and display of `ddctl top`.
//!
//! `source` reads the modules. `state` and `view` are free of I/O: a `reading` and keys go in, and
//! a frame comes out. [`Monitor`] joins them.

mod history;
mod key;
mod monitor;
mod order;
mod reading;
mod source;
mod state;
mod view;

pub use key::Effect;
pub use monitor::Monitor;
