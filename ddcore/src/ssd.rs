// SPDX-License-Identifier: GPL-2.0-only

//! The SSD tier: pages of pools in a log of segments on block devices
//! (`docs/developers/decisions/0013-ssd-tier.md`).
//!
//! A segment has pages of one pool, in the order in which they were put. Its places are filled in
//! order, written in large pieces, and reused when the segment no longer has any pages. The oldest
//! segment of a pool is evicted as a whole, so that a device sees sequential writes only, and each
//! page is written at most once.
//!
//! - [`place`]: the places of a device as handles of the index;
//! - [`segment`]: the life cycle of a segment;
//! - [`health`]: the time that a read may take, and the detection of slow devices;
//! - [`budget`]: the number of pages that may be written;
//! - [`index_limit`]: the memory that the index may take.

pub mod budget;
pub mod health;
pub mod index_limit;
pub mod place;
pub mod segment;
