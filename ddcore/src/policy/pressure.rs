// SPDX-License-Identifier: GPL-2.0

//! What the host says about a pool, in its answers.

use super::Class;
use crate::partition::Entity;

/// The state of a pool, as its guest needs it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pressure {
    /// Pages the pool may hold now, see [`capacity`].
    pub capacity: u64,
    /// Whether a put would make the pool itself give, see [`is_full`].
    pub full: bool,
    /// The class that would give.
    pub floor: Class,
}

/// Whether a pool counts as full. Only asked while the tier itself has less than two batches of
/// room: a tier with room is nobody's limit.
///
/// An eviction frees a whole batch. If that were room, each page that is admitted for its worth
/// would let a batch of others in for nothing; so two batches of room are needed, the same
/// threshold as for spare room in Algorithm 1.
pub const fn is_full(used: u64, capacity: u64, batch: u64) -> bool {
    used.saturating_add(batch.saturating_mul(2)) >= capacity
}

/// Pages that an entity may hold before Algorithm 1 makes it give rather than a peer: its
/// entitlement, and its part by weight of what others leave unused (equation 1 of the paper).
///
/// Takes time in proportion to the entities: the host computes it when it evicts, not for each
/// answer.
pub fn capacity(entities: &[Entity], at: usize, eviction: u64) -> u64 {
    let Some(own) = entities.get(at) else {
        return 0;
    };
    let (mut weights, mut spare) = (0u64, 0u64);
    for (other, entity) in entities.iter().enumerate() {
        let wanted = entity.used.saturating_add(eviction);
        let over = entity.used > 0 && entity.entitlement < wanted;
        if over || other == at {
            weights += u64::from(entity.weight);
        }
        let free = entity.entitlement.saturating_sub(entity.used);
        if other != at && free > eviction.saturating_mul(2) {
            spare = spare.saturating_add(free);
        }
    }
    let part = u128::from(spare) * u128::from(own.weight);
    let part = part.checked_div(u128::from(weights)).unwrap_or(0);
    // At most `spare`, for its own weight is among the weights.
    own.entitlement.saturating_add(part as u64)
}
