// SPDX-License-Identifier: GPL-2.0-only

//! Generic netlink client of both kernel modules.
//!
//! - [`HostControl`] and [`GuestControl`]: the requests of the tools to the modules;
//! - [`blocking`]: both traits over a blocking socket, and the events of the modules;
//! - `tokio` (feature `tokio`): both modules and their events for daemons;
//! - [`reply`]: typed answers, ready for JSON;
//! - [`call`] and [`exchange`]: the codec that all transports share, without I/O;
//! - [`printable()`]: escapes names from untrusted sources for display;
//! - [`program_error`] and [`schema`]: what all tools and daemons say in the same way: the error
//!   with which they end, and the version of their JSON;
//! - `fake` (feature `fake`): modules in memory, for the tests of the tools.
//!
//! The constants come from [`ddabi::genl`]; `docs/netlink/*.yaml` describes the families.

#![forbid(unsafe_code)]

pub mod attributes;
pub mod blocking;
pub mod call;
mod control;
mod counters;
mod error;
pub mod exchange;
#[cfg(feature = "fake")]
pub mod fake;
pub mod family;
mod printable;
pub mod program_error;
pub mod reply;
pub mod schema;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use control::{
    AsyncGuestControl, AsyncHostControl, ConfigChange, EventSource, FlushTarget, Flushed,
    GuestControl, HostControl, NewPool, PoolChange, VmChange,
};
pub use counters::{CounterFields, quantile_ns};
pub use ddabi::policy::Policy;
pub use error::{Error, Result};
pub use family::Side;
pub use printable::{is_hidden, is_listed_as, listed_name, printable, printable_json};
pub use program_error::{Kind, ProgramError};
pub use reply::{Device, Event, GuestStatus, HostStatus, Pool, Vm};
