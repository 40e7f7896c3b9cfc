// SPDX-License-Identifier: GPL-2.0-only

//! Replays one stream of accesses through one container with a policy.

use crate::host::{Host, Mode};
use crate::pagecache::PageCache;
use crate::stream::{Access, Kind};
use ddcore::curve::{Curve, Slot};
use ddcore::policy::shadow::Cell;
use ddcore::policy::{Admission, Order, PageName, Policy, Verdict, sketch};
use serde::Serialize;

/// Number of cells of the default policy's small caches, for pools of the sizes that are replayed.
/// They take 192 KiB.
pub const CELLS: usize = 3 * 4096;

/// Number of slots of a curve, which take 64 KiB.
pub const SLOTS: usize = 4096;

/// Sizes of a replay, in pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Sizes {
    /// Size of the guest's page cache.
    pub guest: usize,
    /// Size of the host's store.
    pub host: usize,
    /// Number of pages evicted at a time: 2 MiB, unless the store is small.
    pub batch: u64,
}

impl Sizes {
    /// Returns sizes with the usual batch, or a batch of a hundredth of the store if that is less.
    pub fn new(guest: usize, host: usize) -> Self {
        Self {
            guest,
            host,
            batch: (host as u64 / 100).clamp(1, 512),
        }
    }
}

/// The result of a replay, in pages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Outcome {
    /// Accesses.
    pub accesses: u64,
    /// Accesses that hit in the guest.
    pub guest_hits: u64,
    /// Accesses that hit at the host.
    pub hits: u64,
    /// Pages copied to the host.
    pub puts: u64,
}

impl Outcome {
    /// Returns the ratio of the host's hits to accesses.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / (self.accesses as f64).max(1.0)
    }

    /// Returns the number of puts per hit, or `None` without a hit.
    pub fn puts_per_hit(&self) -> Option<f64> {
        (self.hits > 0).then(|| self.puts as f64 / self.hits as f64)
    }
}

/// Replays a stream with a policy.
pub fn replay(stream: &[Access], sizes: Sizes, policy: Policy) -> Outcome {
    let mut host = Host::new(sizes.host as u64, sizes.batch, Mode::Weighted);
    let vm = host.add_vm(100);
    let pool = host.add_pool(vm, 100, Order::of(policy));
    let mut admission = Admission::new(
        policy,
        vec![0u64; sketch::words(sizes.host)],
        vec![Cell::default(); CELLS],
    );
    let mut outcome = Outcome::default();
    let mut guest = PageCache::new(sizes.guest);
    for access in stream {
        outcome.accesses += access.count();
        if access.kind == Kind::Gone {
            guest.forget(access.page);
            host.flush(vm, access.page);
            continue;
        }
        let write = access.kind == Kind::Write;
        if guest.access(access.page, write) {
            outcome.guest_hits += 1;
            continue;
        }
        let name = PageName::of(&access.page.key());
        if write {
            host.flush(vm, access.page);
            // Reads and writes both count as a demand for the page.
            admission.missed(&name, false);
        } else {
            let hit = host.take(vm, access.page);
            outcome.hits += u64::from(hit);
            admission.missed(&name, hit);
        }
        guest.insert(access.page, write);
        while let Some(reclaimed) = guest.reclaim() {
            let name = PageName::of(&reclaimed.page.key());
            let pressure = host.pressure(pool);
            match admission.offered(&name, reclaimed.workingset, &pressure) {
                Verdict::Put(class) => {
                    outcome.puts += u64::from(host.put(pool, reclaimed.page, class));
                }
                Verdict::Refuse(_) => {}
            }
        }
    }
    outcome
}

/// Returns the curve of a stream behind a guest of this size.
pub fn curve(stream: &[Access], guest: usize) -> Curve<Vec<Slot>> {
    let mut curve = Curve::new(vec![Slot::default(); SLOTS]);
    let mut cache = PageCache::new(guest);
    for access in stream {
        let hash = PageName::of(&access.page.key()).page;
        if access.kind == Kind::Gone {
            cache.forget(access.page);
            curve.gone(hash);
            continue;
        }
        let write = access.kind == Kind::Write;
        if cache.access(access.page, write) {
            continue;
        }
        if write {
            curve.gone(hash);
        } else {
            curve.read(hash);
        }
        cache.insert(access.page, write);
        while let Some(reclaimed) = cache.reclaim() {
            curve.left(PageName::of(&reclaimed.page.key()).page);
        }
    }
    curve
}
