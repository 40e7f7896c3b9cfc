// SPDX-License-Identifier: GPL-2.0-only

//! Entitlements by weight, and the choice of the victims of evictions (Algorithm 1 of the paper,
//! section 4.3).
//!
//! The same functions are used on both levels: VMs divide the tier, and the containers of a VM
//! divide the VM's part.
//!
//! Sums saturate, because the kernel is compiled with overflow checks, and an absurd number from a
//! guest or an administrator must not cause a panic of the host.

use core::cmp::Reverse;

/// Maximum number of victims that are chosen in one pass over the pools of a VM.
pub const POOL_VICTIMS: usize = 16;

/// One VM among VMs, or one pool among the pools of a VM.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Entity {
    /// Weight among its peers.
    pub weight: u32,
    /// Number of pages to which it is entitled; see [`part`].
    pub entitlement: u64,
    /// Number of pages that it has.
    pub used: u64,
}

/// Returns the part of `pages` for a `weight` out of `total`, rounded down. It is 0 for weight 0,
/// and for every weight if `total` is 0.
///
/// The part depends on the other entities only through `total`, so that its computation takes the
/// same time among thousands of them. The parts of all entities add up to `pages` minus at most one
/// page for each entity.
pub fn part(pages: u64, weight: u64, total: u64) -> u64 {
    if total == 0 {
        return 0;
    }
    let weight = weight.min(total);
    // pages * weight / total, without leaving 64 bits as long as weights are below 2^32.
    let whole = (pages / total).saturating_mul(weight);
    let rest = (pages % total).saturating_mul(weight) / total;
    whole.saturating_add(rest)
}

/// Returns the number of pages that the entities have together.
pub fn used(entities: &[Entity]) -> u64 {
    let used = entities.iter().map(|entity| entity.used);
    used.fold(0, u64::saturating_add)
}

/// Sets the entitlement of each entity: its [`part`] of `pages`.
pub fn entitle(entities: &mut [Entity], pages: u64) {
    let weights = entities.iter().map(|entity| u64::from(entity.weight));
    let total = weights.fold(0, u64::saturating_add);
    for entity in entities {
        entity.entitlement = part(pages, entity.weight.into(), total);
    }
}

/// The pages that entities lend, and the weight of the entities that may use them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sums {
    /// Sum of the unused parts of entitlements, without parts that do not exceed two evictions.
    pub lent: u64,
    /// Weight of the overused entities: those that an eviction would lift above their entitlement.
    pub overused_weight: u64,
}

impl Sums {
    /// Returns the sums over some entities.
    pub fn of(entities: &[Entity], eviction: u64) -> Self {
        let mut sums = Self::default();
        for entity in entities {
            let one = Self::of_one(entity, eviction);
            sums.lent = sums.lent.saturating_add(one.lent);
            sums.overused_weight = sums.overused_weight.saturating_add(one.overused_weight);
        }
        sums
    }

    /// Returns the contribution of one entity to the sums.
    pub fn of_one(entity: &Entity, eviction: u64) -> Self {
        let free = entity.entitlement.saturating_sub(entity.used);
        let lends = free > eviction.saturating_mul(2);
        let is_overused = is_overused(entity, eviction);
        Self {
            lent: if lends { free } else { 0 },
            overused_weight: if is_overused { entity.weight.into() } else { 0 },
        }
    }

    /// Returns the sums over all entities but one, given the contribution of that one.
    pub fn without(&self, one: &Self) -> Self {
        Self {
            lent: self.lent.saturating_sub(one.lent),
            overused_weight: self.overused_weight.saturating_sub(one.overused_weight),
        }
    }

    /// Returns the pages by which an entity exceeds its fair part: equation (1) of the paper.
    fn exceed(&self, entity: &Entity, eviction: u64) -> i64 {
        let extra = self
            .lent
            .saturating_mul(u64::from(entity.weight))
            .checked_div(self.overused_weight)
            .unwrap_or(0);
        let wanted = entity.used.saturating_add(eviction);
        let fair = entity.entitlement.saturating_add(extra);
        // Page counts that occur in practice are far below 2^63; `signed` limits larger ones.
        signed(wanted) - signed(fair)
    }
}

/// Returns the number of pages that an entity may have before Algorithm 1 chooses it rather than a
/// peer: its entitlement, and its part by weight of the pages that its peers lend. `peers` are the
/// sums over all other entities.
pub fn capacity(own: &Entity, peers: &Sums) -> u64 {
    let weight = u64::from(own.weight);
    let all = peers.overused_weight.saturating_add(weight);
    own.entitlement
        .saturating_add(part(peers.lent, weight, all))
}

/// Chooses the entity that loses `eviction` pages: GETVICTIM of the paper. Returns `None` if no
/// entity has a page. See [`Victims`].
pub fn victim(entities: &[Entity], eviction: u64) -> Option<usize> {
    let mut victims = Victims::<1>::new();
    victims.choose(entities, eviction, 1);
    victims.next()
}

/// The victims of consecutive evictions, chosen in one pass over all entities.
///
/// The first one is the victim of GETVICTIM in the paper. Each of the others is the victim after
/// the preceding evictions, except that the pages that entities lend are not computed again in
/// between. An entity may be chosen several times.
///
/// Cases that the paper does not define are handled as follows:
/// - an entity without pages cannot lose any, so that it is neither a victim nor counted as
///   overused (it does not use the spare pages that are divided among those);
/// - if the weights of all overused entities are zero, they get no part of the spare pages (`cw`
///   would be zero);
/// - if no entity is overused (a request is larger than `eviction`, or the tier was made smaller),
///   the entity that is closest to its entitlement is the victim;
/// - of two that exceed equally, the first one is the victim, as in the paper's loop.
#[derive(Debug)]
pub struct Victims<const N: usize> {
    /// The entities that exceed most, one for each remaining victim. As long as one of them was not
    /// a victim, it exceeds all entities that are not in this array.
    candidates: [Candidate; N],
    kept: usize,
    /// Number of remaining victims.
    left: usize,
    eviction: u64,
    /// Whether only overused entities are victims.
    overused: bool,
    /// Time until which the victims may be used.
    until: u64,
}

/// A possible victim, with the number of pages that it would have after the preceding evictions.
#[derive(Clone, Copy, Debug, Default)]
struct Candidate {
    at: usize,
    used: u64,
    entitlement: u64,
    exceed: i64,
}

impl<const N: usize> Victims<N> {
    const NONE: Candidate = Candidate {
        at: 0,
        used: 0,
        entitlement: 0,
        exceed: 0,
    };

    /// Creates an empty list of victims.
    pub const fn new() -> Self {
        Self {
            candidates: [Self::NONE; N],
            kept: 0,
            left: 0,
            eviction: 0,
            overused: false,
            until: u64::MAX,
        }
    }

    /// Drops the remaining victims.
    pub fn clear(&mut self) {
        self.left = 0;
    }

    /// Sets the time until which the victims may be used. There is no limit until it is set.
    pub fn keep_until(&mut self, time: u64) {
        self.until = time;
    }

    /// Returns whether no victims remain that may be used at `now`.
    pub fn are_used_up(&self, now: u64) -> bool {
        self.left == 0 || now >= self.until
    }

    /// Chooses up to `count` victims, at most `N`. There is at least one if any entity has a page.
    pub fn choose(&mut self, entities: &[Entity], eviction: u64, count: usize) {
        self.eviction = eviction;
        self.overused = true;
        let sums = Sums::of(entities, eviction);
        self.keep_most_exceeding(entities, &sums, count);
        if self.kept == 0 {
            self.overused = false;
            self.keep_most_exceeding(entities, &Sums { lent: 0, ..sums }, count);
        }
    }

    fn keep_most_exceeding(&mut self, entities: &[Entity], sums: &Sums, count: usize) {
        let limit = count.min(N);
        (self.left, self.kept) = (limit, 0);
        for (at, entity) in entities.iter().enumerate() {
            let candidate = Candidate {
                at,
                used: entity.used,
                entitlement: entity.entitlement,
                exceed: 0,
            };
            if !self.gives(&candidate) {
                continue;
            }
            let exceed = sums.exceed(entity, self.eviction);
            let kept = &self.candidates[..self.kept];
            // Of two entities that exceed equally, the first one comes first.
            if kept.len() == limit && kept.last().is_some_and(|last| last.exceed >= exceed) {
                continue;
            }
            let place = kept.partition_point(|other| other.exceed >= exceed);
            if place < limit {
                self.kept = (self.kept + 1).min(limit);
                self.candidates[place..self.kept].rotate_right(1);
                self.candidates[place] = Candidate {
                    exceed,
                    ..candidate
                };
            }
        }
    }

    fn gives(&self, candidate: &Candidate) -> bool {
        let Candidate {
            used, entitlement, ..
        } = *candidate;
        used > 0 && (!self.overused || entitlement < used.saturating_add(self.eviction))
    }
}

impl<const N: usize> Default for Victims<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Iterator for Victims<N> {
    type Item = usize;

    /// Returns the position of the next victim among the entities.
    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let candidates = self.candidates[..self.kept].iter().enumerate();
        let candidates = candidates.filter(|(_, one)| self.gives(one));
        let worst = candidates.max_by_key(|(_, one)| (one.exceed, Reverse(one.at)));
        let Some((place, _)) = worst else {
            self.left = 0;
            return None;
        };
        let one = &mut self.candidates[place];
        let taken = self.eviction.min(one.used);
        one.used -= taken;
        one.exceed = one.exceed.saturating_sub(signed(taken));
        Some(one.at)
    }
}

/// Takes `pages` pages from one victim after the other, no more than `turn` from each of them.
/// `choose` chooses victims for evictions of `turn` pages, and is called again when all of them
/// were processed. `take` is called with a victim and the maximum number of pages to take from it,
/// and returns the number of pages that it took. Returns the sum of these, which is less than
/// `pages` if the last victims have no pages.
pub fn collect(
    pages: u64,
    turn: u64,
    mut choose: impl FnMut() -> Victims<POOL_VICTIMS>,
    mut take: impl FnMut(usize, u64) -> u64,
) -> u64 {
    let mut collected = 0u64;
    loop {
        let before = collected;
        for victim in choose() {
            collected = collected.saturating_add(take(victim, turn.min(pages - collected)));
            if collected >= pages {
                return collected;
            }
        }
        if collected == before {
            return collected;
        }
    }
}

fn is_overused(entity: &Entity, eviction: u64) -> bool {
    entity.used > 0 && entity.entitlement < entity.used.saturating_add(eviction)
}

pub(crate) fn signed(pages: u64) -> i64 {
    pages.min(i64::MAX as u64) as i64
}

#[cfg(test)]
mod tests;
