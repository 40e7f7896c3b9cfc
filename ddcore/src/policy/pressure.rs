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
/// room: a tier with room limits no pool.
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
    capacities(entities, eviction).nth(at).unwrap_or(0)
}

/// [`capacity`] of each of the entities, in the same time as of one.
pub fn capacities(entities: &[Entity], eviction: u64) -> impl Iterator<Item = u64> + '_ {
    let is_over =
        move |one: &Entity| one.used > 0 && one.entitlement < one.used.saturating_add(eviction);
    let lent = move |one: &Entity| {
        let free = one.entitlement.saturating_sub(one.used);
        if free > eviction.saturating_mul(2) {
            free
        } else {
            0
        }
    };
    let (mut weights, mut spare) = (0u64, 0u64);
    for one in entities {
        if is_over(one) {
            weights += u64::from(one.weight);
        }
        spare = spare.saturating_add(lent(one));
    }
    entities.iter().map(move |own| {
        let own_weight = u64::from(own.weight);
        let weights = if is_over(own) {
            weights
        } else {
            weights + own_weight
        };
        if weights == 0 {
            return own.entitlement;
        }
        // spare * weight / weights, without leaving 64 bits.
        let spare = spare - lent(own);
        let whole = (spare / weights).saturating_mul(own_weight);
        let rest = (spare % weights).saturating_mul(own_weight) / weights;
        let part = whole.saturating_add(rest);
        own.entitlement.saturating_add(part)
    })
}
