// SPDX-License-Identifier: GPL-2.0-only

//! Eviction of segments in the background, when few are free or the limit of the index is near.

use crate::ffi::queue;
use crate::ssd::device::Device;
use crate::ssd::Ssd;
use crate::state::{host, Host};
use ddcore::host::segments::{self, reclaim};

/// Evicts segments in the background, until enough are free and the index is below its limit.
pub(super) fn wake(ssd: &Ssd) {
    if !ssd.reclaiming.claim() {
        return;
    }
    ssd.reclaiming.run(|| {
        if let Some(host) = host() {
            reclaim_all(host);
            host.ssd.reclaiming.end();
        }
    });
}

fn reclaim_all(host: &Host) {
    let mut from = 0;
    while let Some(device) = host.ssd.next_device(from) {
        from = device.number + 1;
        reclaim(host, &*device);
    }
}

/// Returns whether segments have to be evicted because the limit of the index is near.
fn is_index_large() -> bool {
    host().is_some_and(|host| {
        host.ssd.note_index();
        host.ssd.index_limit.is_near()
    })
}

impl segments::Device for Device {
    fn segment_size(&self) -> u32 {
        self.size()
    }

    fn free(&self) -> usize {
        self.free()
    }

    fn is_short(&self) -> bool {
        // Below a limit that was lowered by much, evictions would delay the module's unloading.
        !queue::is_leaving()
            && self.takes_pages()
            && (self.free() < self.reserve() || is_index_large())
    }

    fn evicted(&self) {
        self.counts.evicted_segments.add(1);
    }
}
