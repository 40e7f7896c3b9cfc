// SPDX-License-Identifier: GPL-2.0-only

//! State of a pool, as the host reports it in its answers.

use super::Class;

/// State of a pool, as far as its guest needs it to admit pages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pressure {
    /// Pages that the pool may hold now, see [`capacity`](crate::partition::capacity).
    pub capacity: u64,
    /// Whether a put would evict pages of the pool itself, see [`is_full`].
    pub full: bool,
    /// The class from which a page would be evicted.
    pub floor: Class,
}

/// Returns whether a pool counts as full. Applies only while the tier itself has less than two
/// batches of room, because a tier with room limits no pool.
///
/// An eviction frees a whole batch. If that counted as room, each page that is admitted for its
/// class would let in a batch of others of any class. A pool therefore has room only with two
/// batches free, the same threshold as for spare room in Algorithm 1.
pub const fn is_full(used: u64, capacity: u64, batch: u64) -> bool {
    used.saturating_add(batch.saturating_mul(2)) >= capacity
}
