// SPDX-License-Identifier: GPL-2.0-only

//! Eviction of segments. Algorithm 1 chooses a VM and one of its pools, whose oldest segment is
//! evicted.

use crate::ffi::queue;
use crate::ssd::Ssd;
use crate::state::{host, Host};
use ddcore::host::segments::evict_segment;

/// Maximum number of segments that are evicted until one becomes free. A segment whose pages are
/// not in the order of the pool becomes free only with a later one.
const TRIES: usize = 8;

/// Evicts segments in the background, until enough are free.
pub(super) fn wake(ssd: &Ssd) {
    if !ssd.reclaiming.claim() {
        return;
    }
    ssd.reclaiming.run(|| {
        if let Some(host) = host() {
            reclaim(host);
            host.ssd.reclaiming.end();
        }
    });
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
}

/// Evicts the oldest segment of the pool that Algorithm 1 chooses. Returns whether there was one.
fn evict(host: &Host, pages: u64) -> bool {
    let Some(((vm, pool), stamp)) = evict_segment(host, pages) else {
        return false;
    };
    if let Some(session) = vm.session() {
        if let Some(place) = session.pool_slot(pool) {
            // Without a stamp, no page has been put into the segment that the pool fills.
            place.log.close(stamp);
        }
    }
    true
}
