// SPDX-License-Identifier: GPL-2.0

//! State of a pool, as the host reports it in its answers.

use super::Class;
use crate::partition::Entity;

/// State of a pool, as far as its guest needs it to admit pages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pressure {
    /// Pages that the pool may hold now, see [`capacity`].
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

/// Returns the pages that an entity may hold before Algorithm 1 chooses it rather than a peer: its
/// entitlement, and its part by weight of the entitlements that others do not use (equation 1 of
/// the paper).
///
/// Takes time in proportion to the number of entities, so that the host does not compute it for
/// each answer.
pub fn capacity(entities: &[Entity], at: usize, eviction: u64) -> u64 {
    capacities(entities, eviction).nth(at).unwrap_or(0)
}

/// Returns the [`capacity`] of each entity, in the same time as of one.
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
