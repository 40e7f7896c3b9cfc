// SPDX-License-Identifier: GPL-2.0

//! The engine of the host: what is done with the pages that guests put, get and flush, and
//! which pages leave when there is no room (`docs/decisions/0009-host-engine.md`).
//!
//! The host module, the fuzz target `host`, the simulator and the benchmark run this source. It
//! decides and counts; locks, memory, time and the guests' frames belong to its owner, which
//! implements the traits of [`session`] and [`room`].
//!
//! - [`session`]: the seam to a session's index and its pools; [`list`]: which lists belong to a pool;
//! - [`carried`]: the pages of a call; [`bin`]: pages on their way out;
//! - [`run`]: runs over shards; [`put`], [`get`], [`flush`]: what guests ask for; [`walk`]:
//!   operations on whole shards;
//! - [`tier`]: the books of a tier; [`room`]: which VM and which pool give; [`evict`]: which pages;
//! - [`notice`], [`pressure`]: what guests are told of that;
//! - `heap`: an owner outside of kernels.

pub mod bin;
pub mod carried;
pub mod evict;
pub mod flush;
pub mod get;
#[cfg(any(test, feature = "heap"))]
pub mod heap;
pub mod list;
pub mod notice;
pub mod pressure;
pub mod put;
pub mod room;
pub mod run;
pub mod session;
pub mod tier;
pub mod walk;

pub use room::Host;
pub use session::Session;
