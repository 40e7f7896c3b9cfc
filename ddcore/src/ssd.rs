// SPDX-License-Identifier: GPL-2.0-only

//! The SSD tier: pages of pools in a log of segments on block devices
//! (`docs/decisions/0013-ssd-tier.md`).
//!
//! A segment holds pages of one pool, in the order in which they were put. Its places are filled one
//! after the other, written in large pieces, and used again when no page of the segment is left. The
//! oldest segment of a pool is evicted as a whole, so that a device sees sequential writes only, and
//! each page is written at most once.
//!
//! - [`place`]: the places of a device as handles of the index;
//! - [`segment`]: the life of a segment;
//! - [`health`]: how long a read may take, and when a device is left alone;
//! - [`budget`]: how much may be written.

pub mod budget;
pub mod health;
pub mod place;
pub mod segment;
