// SPDX-License-Identifier: GPL-2.0

//! Entitlements by weight, and the choice of the victim of an eviction (Algorithm 1 of the paper,
//! section 4.3).
//!
//! The same two functions serve both levels: VMs share the tier, containers share their VM.
//!
//! Sums saturate, because the kernel is compiled with overflow checks, and a wrong number of a
//! guest or an administrator must not cause a panic of the host.

/// One VM among VMs, or one pool among the pools of a VM.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Entity {
    /// Weight among its peers.
    pub weight: u32,
    /// Pages that it is entitled to; see [`Shares`].
    pub entitlement: u64,
    /// Pages that it holds.
    pub used: u64,
}

/// Divides pages by weight, one entity after the other.
///
/// Each gets the difference of two rounded running sums. The shares add up to exactly `pages`
/// (if any weight is above zero), each is off by less than a page, and weight zero gets nothing.
#[derive(Clone, Debug)]
pub struct Shares {
    pages: u64,
    total: u32,
    running: u32,
    given: u64,
}

impl Shares {
    /// Divides `pages` among entities whose weights sum up to `total`.
    pub const fn new(pages: u64, total: u32) -> Self {
        Self {
            pages,
            total,
            running: 0,
            given: 0,
        }
    }

    /// Returns the share of the next entity.
    pub fn take(&mut self, weight: u32) -> u64 {
        if self.total == 0 {
            return 0;
        }
        self.running = self.running.saturating_add(weight).min(self.total);
        let (total, running) = (u64::from(self.total), u64::from(self.running));
        // pages * running / total, without leaving 64 bits: both remainders are below 2^32.
        let upto = self.pages / total * running + self.pages % total * running / total;
        let share = upto - self.given;
        self.given = upto;
        share
    }
}

/// Sets the entitlement of each entity: `pages` divided by weight.
pub fn entitle(entities: &mut [Entity], pages: u64) {
    let total = entities
        .iter()
        .fold(0u32, |sum, entity| sum.saturating_add(entity.weight));
    let mut shares = Shares::new(pages, total);
    for entity in entities {
        entity.entitlement = shares.take(entity.weight);
    }
}

/// Chooses the entity that gives `eviction` pages: GETVICTIM of the paper. Returns `None` if no
/// entity holds a page.
///
/// The cases that the paper leaves open are decided as follows:
/// - an entity without pages can give none: it is neither a victim nor among the overused
///   (it could not use the spare pages that are handed to those);
/// - overused entities without any weight get no part of the spare pages (`cw` would be zero);
/// - if no entity is overused (a request larger than `eviction`, or a tier that was made smaller),
///   the one that is closest to its entitlement gives;
/// - of two that exceed equally, the first one gives, as in the paper's loop.
pub fn victim(entities: &[Entity], eviction: u64) -> Option<usize> {
    let mut overused_weight = 0u64;
    let mut spare = 0u64;
    for entity in entities {
        if is_overused(entity, eviction) {
            overused_weight += u64::from(entity.weight);
        }
        let free = entity.entitlement.saturating_sub(entity.used);
        if free > eviction.saturating_mul(2) {
            spare = spare.saturating_add(free);
        }
    }

    let most_exceeding = |spare: u64, candidate: &dyn Fn(&Entity) -> bool| {
        let mut worst: Option<(usize, i64)> = None;
        for (at, entity) in entities.iter().enumerate() {
            if !candidate(entity) {
                continue;
            }
            let exceed = exceed(entity, eviction, spare, overused_weight);
            if worst.is_none_or(|(_, most)| most < exceed) {
                worst = Some((at, exceed));
            }
        }
        worst.map(|(at, _)| at)
    };
    most_exceeding(spare, &|entity| is_overused(entity, eviction))
        .or_else(|| most_exceeding(0, &|entity| entity.used > 0))
}

/// Takes `eviction` pages from one [`victim`] after the other, because a victim may hold only a few
/// pages and have a thousand peers like it. A caller that waits for room then gets a whole batch,
/// and the pages of all entities are counted only once for it.
///
/// `take` gets the victim and the most pages to take from it, and returns the number of pages that
/// it took. Returns the sum of these.
pub fn collect(entities: &mut [Entity], eviction: u64, take: impl FnMut(usize, u64) -> u64) -> u64 {
    collect_in_turns(entities, eviction, eviction, take)
}

/// Like [`collect`], but no entity gives more than `turn` pages before [`victim`] is asked again,
/// for turns instead of batches.
///
/// Repeated requests for a few pages then take from all entities that exceed their entitlement, and
/// all of these end equally far beyond it, to within a turn. If the caller has divided only the
/// pages that are to be left, an entity gives only while it is beyond its entitlement.
pub fn collect_in_turns(
    entities: &mut [Entity],
    pages: u64,
    turn: u64,
    mut take: impl FnMut(usize, u64) -> u64,
) -> u64 {
    let mut collected = 0u64;
    while collected < pages {
        let Some(at) = victim(entities, turn) else {
            break;
        };
        let taken = take(at, turn.min(pages - collected));
        collected = collected.saturating_add(taken);
        let used = &mut entities[at].used;
        // An entity that gives no page has lost its pages since they were counted.
        *used = match taken {
            0 => 0,
            taken => used.saturating_sub(taken),
        };
    }
    collected
}

fn is_overused(entity: &Entity, eviction: u64) -> bool {
    entity.used > 0 && entity.entitlement < entity.used.saturating_add(eviction)
}

/// Equation (1) of the paper.
fn exceed(entity: &Entity, eviction: u64, spare: u64, overused_weight: u64) -> i64 {
    let extra = spare
        .saturating_mul(u64::from(entity.weight))
        .checked_div(overused_weight)
        .unwrap_or(0);
    let wanted = entity.used.saturating_add(eviction);
    let fair = entity.entitlement.saturating_add(extra);
    // No real number of pages is near 2^63. Larger ones are cut to the largest value.
    signed(wanted) - signed(fair)
}

fn signed(pages: u64) -> i64 {
    pages.min(i64::MAX as u64) as i64
}

#[cfg(test)]
mod tests;
