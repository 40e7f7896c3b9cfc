// SPDX-License-Identifier: GPL-2.0-only

//! State of a pool, as the host reports it in its answers.

use super::Class;

/// State of a pool that its guest needs for admission.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pressure {
    /// Number of pages that the pool may have now, see [`capacity`](crate::partition::capacity).
    pub capacity: u64,
    /// Whether a put would evict pages of the pool itself, see [`is_full`].
    pub full: bool,
    /// The class from which a page would be evicted.
    pub floor: Class,
}

/// Returns whether a pool counts as full. The caller uses this only while the tier itself has room
/// for less than two batches, because a tier with room does not limit pools.
///
/// An eviction frees a whole batch. If that counted as room, each page that is admitted because of
/// its class would cause the admission of a batch of pages of any class. A pool therefore has room
/// only if more than two batches are free, which is also the threshold for unused entitlements in
/// Algorithm 1.
pub const fn is_full(used: u64, capacity: u64, batch: u64) -> bool {
    used.saturating_add(batch.saturating_mul(2)) >= capacity
}
