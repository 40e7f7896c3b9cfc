// SPDX-License-Identifier: GPL-2.0

//! Weights, stores, and what a pool counts.

use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Largest weight of a VM or a pool. Shares are weight over the sum of the peers' weights.
pub const MAX_WEIGHT: u32 = 10_000;

/// Weight of a VM, and of its default pool, until one is set.
pub const DEFAULT_WEIGHT: u32 = 100;

/// The pool of everything outside enrolled containers.
pub const DEFAULT_POOL: u32 = 0;

/// Most pools of one VM, the default pool included.
pub const MAX_POOLS: u32 = 1024;

/// Where a pool's pages are kept (the paper's T of the tuple (T, W), section 3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Store {
    /// Nowhere: puts are refused.
    None = 0,
    /// The memory tier.
    Memory = 1,
}

impl Store {
    /// The store with this number, if there is one.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            0 => Some(Self::None),
            1 => Some(Self::Memory),
            _ => None,
        }
    }
}

/// Buckets of a [`Histogram`].
pub const HISTOGRAM_BUCKETS: usize = 32;

/// How long batches took: bucket `n` counts those of `2^n` to `2^(n+1) - 1` nanoseconds.
pub type Histogram = [u64; HISTOGRAM_BUCKETS];

/// The bucket for a duration in nanoseconds.
pub const fn histogram_bucket(nanoseconds: u64) -> usize {
    let log = 63 - (nanoseconds | 1).leading_zeros() as usize;
    if log < HISTOGRAM_BUCKETS {
        log
    } else {
        HISTOGRAM_BUCKETS - 1
    }
}

/// What the host counts for a pool; the unit is pages unless said otherwise.
///
/// At any quiet moment, exactly:
/// `used = puts + moved_in - (hits + flushes + evictions + moved_out)`.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct PoolStats {
    /// Weight among the VM's pools.
    pub weight: u64,
    /// Pages the pool is entitled to now.
    pub entitlement: u64,
    /// Pages held now.
    pub used: u64,
    /// Pages stored.
    pub puts: u64,
    /// Puts refused: weight zero or no store.
    pub put_refused_off: u64,
    /// Puts refused: the host had no memory or no room could be made.
    pub put_refused_memory: u64,
    /// Puts refused: the guest has no memory there that could be read.
    pub put_refused_fault: u64,
    /// Pages asked for by readers of this pool.
    pub gets: u64,
    /// Pages found and taken out of this pool, by readers of any pool.
    pub hits: u64,
    /// Pages asked for by readers of this pool and not given.
    pub misses: u64,
    /// Pages freed because the guest flushed, overwrote or half asked for them.
    pub flushes: u64,
    /// Pages freed to make room.
    pub evictions: u64,
    /// Pages that came from other pools by migration.
    pub moved_in: u64,
    /// Pages that went to other pools by migration.
    pub moved_out: u64,
    /// Pages hit by readers of this pool that another pool owned.
    pub hits_foreign: u64,
    /// Get calls in which this pool took part first.
    pub get_batches: u64,
    /// Put calls in which this pool took part first.
    pub put_batches: u64,
    /// Duration of get calls at the host.
    pub get_latency: Histogram,
    /// Duration of put calls at the host.
    pub put_latency: Histogram,
    /// Puts refused: the guest's frame was not in the host's memory, which no put waits for.
    pub put_refused_absent: u64,
}

impl PoolStats {
    /// What `used` must be by the counters alone.
    pub const fn expected_used(&self) -> u64 {
        let came = self.puts.wrapping_add(self.moved_in);
        let left = self.hits.wrapping_add(self.flushes);
        let left = left
            .wrapping_add(self.evictions)
            .wrapping_add(self.moved_out);
        came.wrapping_sub(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two() {
        assert_eq!(histogram_bucket(0), 0);
        assert_eq!(histogram_bucket(1), 0);
        assert_eq!(histogram_bucket(2), 1);
        assert_eq!(histogram_bucket(1023), 9);
        assert_eq!(histogram_bucket(1024), 10);
        assert_eq!(histogram_bucket(u64::MAX), HISTOGRAM_BUCKETS - 1);
    }
}
