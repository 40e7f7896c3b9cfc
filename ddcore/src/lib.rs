// SPDX-License-Identifier: GPL-2.0-only

//! The decision logic of the cache, without I/O, locks, clocks or allocation.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "heap"))]
extern crate alloc;

pub mod account;
pub mod clock;
pub mod current_session;
pub mod curve;
pub mod flush_queue;
pub mod host;
pub mod index;
pub mod limit;
pub mod link;
pub mod number;
pub mod partition;
pub mod policy;
pub mod presence;
pub mod request;
pub mod roll;
pub mod sequence;
pub mod speculation;
pub mod ssd;
