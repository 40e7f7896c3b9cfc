// SPDX-License-Identifier: GPL-2.0-only

//! Counters of pools, and their consistency.

use super::{Host, PoolId};
use ddcore::host::Session as _;
use ddcore::host::session::TierKind;
use ddcore::host::walk::counted;

/// Counters of a pool in a tier, in pages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Pages held.
    pub used: u64,
    /// Pages stored.
    pub puts: u64,
    /// Pages read back.
    pub hits: u64,
    /// Pages freed because their content changed, or because their pool or their VM ended.
    pub flushes: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Pages that were moved from the other tier.
    pub relocated_in: u64,
    /// Pages that were moved to the other tier.
    pub relocated_out: u64,
}

impl Counts {
    /// Returns the pages held that follow from the other counters.
    pub const fn expected(&self) -> u64 {
        let left = self.hits + self.flushes + self.evictions + self.relocated_out;
        (self.puts + self.relocated_in).saturating_sub(left)
    }
}

/// Pages that were written to and read from the SSD tier's device, without those that were read for
/// a guest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SsdTraffic {
    /// Pages written, by puts and by moves from the memory tier.
    pub written: u64,
    /// Pages read to be moved to the memory tier.
    pub moved: u64,
}

impl Host {
    /// Returns the counters of a pool in the memory tier.
    pub fn counts(&self, id: PoolId) -> Counts {
        self.counts_in(id, TierKind::Memory)
    }

    /// Returns the counters of a pool in a tier.
    pub fn counts_in(&self, id: PoolId, tier: TierKind) -> Counts {
        let sum = counted(&self.vm(id.vm).session, id.pool as u32, tier);
        Counts {
            used: sum.used,
            puts: sum.puts,
            hits: sum.hits,
            flushes: sum.flushes,
            evictions: sum.evictions,
            relocated_in: sum.relocated_in,
            relocated_out: sum.relocated_out,
        }
    }

    /// Returns the number of pages held in the memory tier.
    pub fn used(&self) -> u64 {
        self.engine.tier.used()
    }

    /// Returns the number of pages held in the SSD tier.
    pub fn ssd_used(&self) -> u64 {
        self.engine.own.device.borrow().live()
    }

    /// Returns what was written to and moved from the SSD tier so far.
    pub fn ssd_traffic(&self) -> SsdTraffic {
        let own = &self.engine.own;
        SsdTraffic {
            written: own.device.borrow().written(),
            moved: own.moved.get(),
        }
    }

    /// Checks that the counters of all pools are consistent with each other in each tier, and with
    /// the accounts of the tiers.
    ///
    /// # Panics
    ///
    /// If they are inconsistent.
    pub fn check_books(&self) {
        let (mut memory, mut ssd) = (0, 0);
        let vms = self.engine.vm_list.borrow().vms().to_vec();
        for (vm, state) in vms.iter().enumerate() {
            let (mut in_memory, mut on_ssd) = (0, 0);
            for pool in 0..state.session.pool_count() as usize {
                let id = PoolId { vm, pool };
                let [up, down] = [TierKind::Memory, TierKind::Ssd].map(|tier| {
                    let counts = self.counts_in(id, tier);
                    assert_eq!(counts.used, counts.expected(), "{id:?} {tier:?} {counts:?}");
                    counts
                });
                assert_eq!(up.relocated_out, down.relocated_in, "{id:?}");
                assert_eq!(up.relocated_in, down.relocated_out, "{id:?}");
                in_memory += up.used;
                on_ssd += down.used;
                let places = state.session.places(pool as u32);
                assert!(down.used <= places, "{id:?} {places}");
            }
            let own = state.session.state();
            assert_eq!((own.used(), own.ssd()), (in_memory, on_ssd));
            memory += in_memory;
            ssd += on_ssd;
        }
        assert_eq!((self.used(), self.ssd_used()), (memory, ssd));
    }
}
