// SPDX-License-Identifier: GPL-2.0-only

//! Eviction of segments of the SSD tier. Algorithm 1 chooses a VM and one of its pools, whose
//! oldest segment is evicted.
//!
//! Usage is counted in places of whole segments, because other pools cannot use the places of a
//! segment that hits have vacated.

use super::cause::Cause;
use super::evict::{evict_ssd, oldest_ssd_stamp, Freed};
use super::room::{Host, Parts, Vm as _, VmList};
use super::session::Session;
use crate::partition::{entitle, used, victim, Entity};

/// A VM and the number of its pool.
type Chosen<H> = (<<H as Host>::VmList as VmList>::Ref, u32);

/// Maximum number of segments that are evicted until one becomes free. A segment whose pages are
/// not in the order of the pool becomes free only with a later one.
const TRIES: usize = 8;

/// A device of the SSD tier, of whose segments some are kept free.
pub trait Device {
    /// Returns the number of places of a segment.
    fn segment_size(&self) -> u32;

    /// Returns the number of free segments.
    fn free(&self) -> usize;

    /// Returns whether segments have to be evicted, because few are free or for another reason of
    /// the owner.
    fn is_short(&self) -> bool;

    /// Called after a segment was evicted to free one of this device.
    fn evicted(&self) {}
}

/// Evicts segments until enough segments of a device are free.
pub fn reclaim<H: Host>(host: &H, device: &impl Device) {
    let mut tries = 0;
    while device.is_short() && tries < TRIES {
        let before = device.free();
        if evict_segment(host, device.segment_size().into()).is_none() {
            break;
        }
        device.evicted();
        tries = if device.free() > before { 0 } else { tries + 1 };
        host.cond_resched();
    }
}

/// Evicts the oldest segment of the pool that Algorithm 1 chooses, and closes it if the pool fills
/// it; a segment has `places` places. Returns the stamp of the segment with the number of its
/// pages, or no stamp if no page has been put into the segment that the pool fills. Returns `None`
/// if no pool has places.
pub fn evict_segment<H: Host>(host: &H, places: u64) -> Option<(Option<u64>, u64)> {
    let (vm, pool) = choose(host, places)?;
    let Some(session) = vm.session() else {
        return Some((None, 0));
    };
    let stamp = oldest_ssd_stamp(&*session, pool);
    let mut evicted = 0;
    if let Some(stamp) = stamp {
        evicted = evict_ssd(&*session, (pool, Cause::Segment), u64::MAX, stamp);
        host.evicted(&Freed::evicted(evicted));
    }
    session.close_segment(pool, stamp);
    Some((stamp, evicted))
}

/// Chooses the VM and the pool that lose a segment.
fn choose<H: Host>(host: &H, pages: u64) -> Option<Chosen<H>> {
    let vm = choose_vm(host, &mut *host.lock(), pages)?;
    let pool = choose_pool(&*vm.session()?, pages)?;
    Some((vm, pool))
}

fn choose_vm<H: Host>(
    host: &H,
    vm_list: &mut H::VmList,
    pages: u64,
) -> Option<<H::VmList as VmList>::Ref> {
    let Parts { vms, entities, .. } = vm_list.parts();
    for (entity, vm) in entities.iter_mut().zip(vms) {
        *entity = Entity {
            weight: vm.ssd_share(),
            entitlement: 0,
            used: vm.peek(Session::all_places).unwrap_or(0),
        };
    }
    entitle(entities, host.ssd_pages());
    vms.get(victim(entities, pages)?).cloned()
}

fn choose_pool<S: Session>(session: &S, pages: u64) -> Option<u32> {
    session.with_entities(|entities| {
        let count = (session.pool_count() as usize).min(entities.len());
        let entities = &mut entities[..count];
        for (number, entity) in (0..).zip(entities.iter_mut()) {
            *entity = Entity {
                weight: session.ssd_share(number),
                entitlement: 0,
                used: session.places(number),
            };
        }
        let held = used(entities);
        entitle(entities, held);
        victim(entities, pages).map(|pool| pool as u32)
    })
}

#[cfg(test)]
pub(super) mod tests;
