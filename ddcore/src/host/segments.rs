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

/// Evicts the oldest segment of the pool that Algorithm 1 chooses; a segment has `pages` places.
/// Returns the VM and the pool with the stamp of the segment, so that the caller can close it, or
/// with `None` instead of a stamp if the tier has no page of the pool. Returns `None` if no pool
/// has places.
pub fn evict_segment<H: Host>(host: &H, pages: u64) -> Option<(Chosen<H>, Option<u64>)> {
    let (vm, pool) = choose(host, pages)?;
    let stamp = vm.session().and_then(|session| {
        let stamp = oldest_ssd_stamp(&*session, pool)?;
        let evicted = evict_ssd(&*session, (pool, Cause::Segment), u64::MAX, stamp);
        host.evicted(&Freed::evicted(evicted));
        Some(stamp)
    });
    Some(((vm, pool), stamp))
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
