// SPDX-License-Identifier: GPL-2.0-only

//! Evicting segments. Algorithm 1 chooses a VM and one of its pools, whose oldest segment goes.

use crate::ffi::queue;
use crate::ssd::Ssd;
use crate::state::{host, Host};
use crate::vm::session::Session;
use ddcore::host::evict::{evict_ssd, oldest_ssd_stamp, Freed};
use ddcore::host::room::{Vm as _, VmList as _};
use ddcore::host::{Host as _, Session as _};
use ddcore::partition::{entitle, victim, Entity};
use kernel::sync::atomic::ordering::Full;
use kernel::sync::Arc;

/// Segments that are evicted for one that becomes free, at most. One whose pages are out of order
/// is free only with the next one.
const TRIES: usize = 8;

/// Evicts segments in the background, until enough are free.
pub(super) fn wake(ssd: &Ssd) {
    if ssd.reclaiming.xchg(true, Full) {
        return;
    }
    let has_begun = queue::spawn(|| {
        if let Some(host) = host() {
            reclaim(host);
        }
    });
    if !has_begun {
        ssd.reclaiming.xchg(false, Full);
    }
}

fn reclaim(host: &Host) {
    let ssd = &host.ssd;
    let mut from = 0;
    while let Some(device) = ssd.next_device(from) {
        from = device.number + 1;
        let mut tries = 0;
        while device.takes_pages() && device.free() < device.reserve() && tries < TRIES {
            let before = device.free();
            if !evict(host, device.size().into()) {
                break;
            }
            device.counts.evicted_segments.add(1);
            tries = if device.free() > before { 0 } else { tries + 1 };
            queue::cond_resched();
        }
    }
    ssd.reclaiming.xchg(false, Full);
}

/// Evicts the oldest segment of the pool that Algorithm 1 chooses. Returns whether there was one.
fn evict(host: &Host, pages: u64) -> bool {
    let Some(session) = choose_vm(host, pages) else {
        return false;
    };
    let Some(pool) = choose_pool(&session, pages) else {
        return false;
    };
    let Some(place) = session.place(pool) else {
        return false;
    };
    let before = place.log.holding.places();
    match oldest_ssd_stamp(&*session, pool) {
        Some(stamp) => {
            let evicted = evict_ssd(&*session, pool, u64::MAX, stamp);
            host.evicted(&Freed::evicted(evicted));
            place.log.close(Some(stamp));
        }
        // The segment that it fills has no pages.
        None => place.log.close(None),
    }
    place.log.holding.places() < before || before > 0
}

fn choose_vm(host: &Host, pages: u64) -> Option<Arc<Session>> {
    let mut vm_list = host.lock();
    let parts = vm_list.parts();
    for (entity, vm) in parts.entities.iter_mut().zip(parts.vms) {
        let held = vm.session().map_or(0, |session| session.holding.places());
        *entity = Entity {
            weight: vm.ssd_share(),
            entitlement: 0,
            used: held,
        };
    }
    let entities = &mut *parts.entities;
    entitle(entities, host.ssd.places());
    let chosen = victim(entities, pages)?;
    let vm = parts.vms.get(chosen)?;
    vm.session()
}

fn choose_pool(session: &Session, pages: u64) -> Option<u32> {
    session.with_entities(|entities| {
        let count = (session.pool_count() as usize).min(entities.len());
        let entities = &mut entities[..count];
        for (number, entity) in (0..).zip(entities.iter_mut()) {
            let place = session.place(number);
            *entity = Entity {
                weight: session.ssd_share(number),
                entitlement: 0,
                used: place.map_or(0, |place| place.log.holding.places()),
            };
        }
        let held = session.holding.places();
        entitle(entities, held);
        victim(entities, pages).map(|pool| pool as u32)
    })
}
