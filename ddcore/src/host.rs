// SPDX-License-Identifier: GPL-2.0-only

//! The engine of the host: puts, gets and flushes of guests, and evictions when there is no room
//! (`docs/developers/decisions/0009-host-engine.md`).
//!
//! The host module, the fuzz target `host`, the simulator and the benchmark use this code. It makes
//! decisions and counts. Its owner provides locks, memory, clocks and access to the guests' frames,
//! by implementing the traits of [`session`] and [`room`].
//!
//! - [`session`]: the interface to a session's index and pools; [`list`]: the lists of a pool;
//! - [`cause`]: the reason for an eviction; [`carried`]: the pages of a call; [`bin`]: pages to
//!   free after unlocking; [`tally`]: the numbers of pages of each pool;
//! - [`run`]: runs over shards; [`put`], [`get`], [`flush`]: the calls of guests;
//!   [`steps`]: work that takes several calls; [`walk`]: operations on whole shards;
//! - [`relocate`]: demotion and promotion between the tiers; [`promotion`]: the choice of VM and
//!   pool for the latter; [`segments`]: eviction of segments of the SSD tier;
//! - [`tier`]: the accounts of a tier; [`standing`]: the part of each VM in it; [`room`]: room for
//!   puts, and memory for the host; `choice`: the choice of VMs for an eviction; [`evict`]: the
//!   choice of pools and pages;
//! - [`notice`]: eviction notices; [`pressure`]: the state of pools in answers;
//! - [`visit`]: visits of all VMs;
//! - `heap`: an owner for use outside of kernels.

pub mod bin;
pub mod carried;
pub mod cause;
mod choice;
pub mod evict;
pub mod flush;
pub mod get;
#[cfg(any(test, feature = "heap"))]
pub mod heap;
pub mod list;
pub mod node;
pub mod notice;
pub mod pressure;
pub mod promotion;
pub mod put;
pub mod relocate;
pub mod room;
pub mod run;
pub mod segments;
pub mod session;
pub mod standing;
pub mod steps;
pub mod tally;
pub mod tier;
pub mod visit;
pub mod walk;

pub use room::{Host, Origin};
pub use session::Session;
