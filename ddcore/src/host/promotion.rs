// SPDX-License-Identifier: GPL-2.0-only

//! Promotion while much of the memory tier is free: the choice of the VM and the pool that is
//! furthest below its entitlement, or least above it (section 5.3.2 of the thesis).

use super::evict::entities;
use super::pressure::Gauge;
use super::relocate::{promote, Promoted};
use super::room::{Host, Parts, Vm as _, VmList};
use super::session::Session;
use super::standing::{self, Whole};
use crate::number::Number;
use crate::partition::{entitle, signed, Entity};
use ddabi::genl::Mode;

/// Maximum number of VMs that one pass over the list of VMs chooses, and of pools of a VM that are
/// tried.
const TRIES: usize = 8;

/// Milliseconds for which a VM is not tried again after none of its pages could be promoted, so
/// that such VMs do not prevent the promotion of pages of others.
const PAUSE_MS: u64 = 5000;

/// Number of pages that are promoted at a time. It is small because puts may need the background
/// evictor in the meantime.
const BATCH: u64 = 64;

/// Returns whether the background evictor should look for pages to promote. This is checked during
/// calls of guests.
#[inline]
pub fn is_promotion_due<H: Host>(host: &H) -> bool {
    let tier = host.tier();
    host.ssd_pages() > 0 && tier.promotable() > 0 && tier.is_promotion_due(host.milliseconds())
}

/// Promotes pages until the memory tier is filled up to its low threshold, no pool has pages that
/// can be promoted, or the host needs its memory.
pub(super) fn promote_pages<H: Host>(host: &H) {
    while is_useful(host) && promote_batch(host) {
        host.cond_resched();
    }
}

/// Returns whether the memory tier and the host have room for promoted pages.
fn is_useful<H: Host>(host: &H) -> bool {
    let tier = host.tier();
    host.ssd_pages() > 0
        && tier.mode() == Mode::Weighted
        && tier.promotable() > 0
        && tier.shortage() == 0
        && host.spare() >= tier.vacancy()
}

/// Promotes up to [`BATCH`] pages of one pool. Returns whether another call may promote more pages:
/// if this one has found any, or if none of the chosen VMs had any, so that the next call chooses
/// others.
fn promote_batch<H: Host>(host: &H) -> bool {
    let tier = host.tier();
    let now = host.milliseconds();
    let vms = choose_vms(host, &mut *host.lock(), now);
    let mut has_paused = false;
    for vm in vms.iter().flatten() {
        let Some(session) = vm.session() else {
            continue;
        };
        let entitlement = standing::entitlement(tier, &**vm);
        for pool in choose_pools(&*session, entitlement).into_iter().flatten() {
            // The reads of each pool take time, in which puts may need the background evictor.
            let wanted = tier.promotable().min(BATCH);
            if wanted == 0 || !is_useful(host) || !tier.reserve(wanted) {
                return false;
            }
            let node = |page: &_| host.node(page);
            let Promoted { moved, lost } = promote(&*session, pool, wanted, node);
            tier.release(wanted - moved);
            if moved + lost > 0 {
                host.promoted(moved);
                return true;
            }
        }
        // The reads may have taken longer than the pause.
        let end = host.milliseconds() + PAUSE_MS;
        session.state().promotion.swap(end);
        has_paused = true;
    }
    has_paused
}

/// The chosen VMs, the neediest first.
type Chosen<H> = [Option<<<H as Host>::VmList as VmList>::Ref>; TRIES];

/// Chooses VMs that have pages in the SSD tier and weight in the memory tier.
fn choose_vms<H: Host>(host: &H, vm_list: &mut H::VmList, now: u64) -> Chosen<H> {
    let Parts { vms, entities, .. } = vm_list.parts();
    let whole = Whole::of(host.tier());
    for (entity, vm) in entities.iter_mut().zip(vms) {
        let seen = vm.peek(|session| {
            let state = session.state();
            let has_pages = state.ssd() > 0 && state.promotion.load() <= now;
            (session.used(), has_pages)
        });
        let (used, has_pages) = seen.unwrap_or((0, false));
        *entity = whole.refresh(&**vm, used);
        if !has_pages {
            entity.weight = 0;
        }
    }
    neediest(entities).map(|at| vms.get(at?).cloned())
}

/// Chooses pools of a session that have pages in the SSD tier and weight in the memory tier.
fn choose_pools<S: Session>(session: &S, entitlement: u64) -> [Option<u32>; TRIES] {
    session.with_entities(|pools| {
        let pools = entities(session, pools);
        entitle(pools, entitlement);
        for (number, pool) in (0..).zip(pools.iter_mut()) {
            if session.gauge(number).map_or(0, Gauge::ssd) == 0 {
                pool.weight = 0;
            }
        }
        neediest(pools).map(|at| at.map(|at| at as u32))
    })
}

/// Returns the entities with weight that are furthest below their entitlements, or least above
/// them, in this order.
fn neediest(entities: &[Entity]) -> [Option<usize>; TRIES] {
    let mut chosen = [None; TRIES];
    for (at, entity) in entities.iter().enumerate() {
        if entity.weight == 0 {
            continue;
        }
        let mut next = Some(at);
        for place in &mut chosen {
            let is_ahead = match (next, *place) {
                (Some(_), None) => true,
                (Some(next), Some(other)) => lack(&entities[next]) > lack(&entities[other]),
                (None, _) => break,
            };
            if is_ahead {
                core::mem::swap(place, &mut next);
            }
        }
    }
    chosen
}

/// Returns the number of pages by which an entity is below its entitlement. It is negative if the
/// entity is above.
fn lack(entity: &Entity) -> i64 {
    signed(entity.entitlement) - signed(entity.used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lacks_most_comes_first() {
        let entity = |weight, entitlement, used| Entity {
            weight,
            entitlement,
            used,
        };
        let mut entities = vec![
            entity(1, 10, 5),
            entity(0, 100, 0),
            entity(1, 10, 30),
            entity(1, 10, 1),
        ];
        let first = |entities: &[Entity]| neediest(entities).into_iter().flatten().collect();
        let order: Vec<_> = first(&entities);
        assert_eq!(order, [3, 0, 2]);
        entities.extend((0..20).map(|more| entity(1, 100 + more, 0)));
        let order: Vec<_> = first(&entities);
        assert_eq!(order, [23, 22, 21, 20, 19, 18, 17, 16]);
    }
}
