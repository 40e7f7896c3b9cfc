// SPDX-License-Identifier: GPL-2.0-only

//! Weights, stores and counters of a pool.

use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The largest weight of a VM or a pool. A share is the weight divided by the sum of all weights.
pub const MAX_WEIGHT: u32 = 10_000;

/// Weight of a VM, and of its default pool, until a weight is set.
pub const DEFAULT_WEIGHT: u32 = 100;

/// Weight of a pool in the SSD tier which means that its [`weight`](PoolStats::weight) is used
/// there too.
pub const SAME_WEIGHT: u32 = u32::MAX;

/// The pool of all pages that belong to no enrolled container.
pub const DEFAULT_POOL: u32 = 0;

/// Maximum number of pools of one VM, including the default pool.
pub const MAX_POOLS: u32 = 1024;

/// Where the pages of a pool are kept (T in the paper's tuple (T, W), section 3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Store {
    /// In no store: puts are refused.
    None = 0,
    /// In the memory tier.
    Memory = 1,
    /// In the SSD tier.
    Ssd = 2,
    /// In the memory tier first, and in the SSD tier when they have to leave the memory tier.
    Hybrid = 3,
}

impl Store {
    /// All stores.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Ssd, Self::Hybrid, Self::None];

    /// Returns the store with this number, if there is one.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            0 => Some(Self::None),
            1 => Some(Self::Memory),
            2 => Some(Self::Ssd),
            3 => Some(Self::Hybrid),
            _ => None,
        }
    }

    /// Returns the store with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|store| store.name() == name)
    }

    /// Returns the name of the store, as used by tools and configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Memory => "mem",
            Self::Ssd => "ssd",
            Self::Hybrid => "hybrid",
        }
    }

    /// Returns whether pages are kept in the memory tier.
    pub const fn has_memory(self) -> bool {
        matches!(self, Self::Memory | Self::Hybrid)
    }

    /// Returns whether pages are kept in the SSD tier.
    pub const fn has_ssd(self) -> bool {
        matches!(self, Self::Ssd | Self::Hybrid)
    }
}

/// Which pages of a pool go to the SSD tier.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u32)]
pub enum SsdAdmit {
    /// All pages.
    #[default]
    All = 0,
    /// Pages that have proven their worth: those that are put with a class of at least 1, because
    /// they were read repeatedly. Other pages are evicted instead of demoted, and are not put
    /// there directly.
    Second = 1,
}

impl SsdAdmit {
    /// All settings.
    pub const ALL: [Self; 2] = [Self::All, Self::Second];

    /// Returns the setting with this number, if there is one.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            0 => Some(Self::All),
            1 => Some(Self::Second),
            _ => None,
        }
    }

    /// Returns the setting with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|admit| admit.name() == name)
    }

    /// Returns the name of the setting, as used by tools and configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Second => "second",
        }
    }

    /// Returns the lowest class of pages that go to the SSD tier.
    pub const fn least_class(self) -> u8 {
        match self {
            Self::All => 0,
            Self::Second => 1,
        }
    }

    /// Returns whether pages of a class go to the SSD tier.
    pub const fn admits(self, class: u8) -> bool {
        class >= self.least_class()
    }
}

/// Number of buckets of a [`Histogram`].
pub const HISTOGRAM_BUCKETS: usize = 32;

/// Histogram of durations: bucket `n` counts durations of `2^n` to `2^(n+1) - 1` nanoseconds.
pub type Histogram = [u64; HISTOGRAM_BUCKETS];

/// Returns the bucket for a duration in nanoseconds.
pub const fn histogram_bucket(nanoseconds: u64) -> usize {
    let log = 63 - (nanoseconds | 1).leading_zeros() as usize;
    if log < HISTOGRAM_BUCKETS {
        log
    } else {
        HISTOGRAM_BUCKETS - 1
    }
}

/// Counters of the host for a pool, in pages unless a field says otherwise.
///
/// Counters whose names begin with `ssd_` give the part of the SSD tier in the counters without
/// this prefix. While no call is in progress,
///
/// - `used = puts + moved_in - (hits - hits_retained + flushes + evictions + moved_out)`, and
/// - `ssd_used = ssd_puts + demoted - (ssd_hits - hits_retained + ssd_flushes + ssd_evictions +
///   promoted)`.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct PoolStats {
    /// Weight among the VM's pools.
    pub weight: u64,
    /// Current entitlement of the pool in the memory tier.
    pub entitlement: u64,
    /// Current entitlement of the pool in the SSD tier.
    pub ssd_entitlement: u64,
    /// Pages currently held.
    pub used: u64,
    /// Pages stored.
    pub puts: u64,
    /// Puts refused: the weight is zero, or the pool has no store.
    pub put_refused_off: u64,
    /// Puts refused: the host could not allocate memory, or no page could be evicted for them.
    pub put_refused_memory: u64,
    /// Puts refused: the guest's frame is not readable memory.
    pub put_refused_fault: u64,
    /// Pages requested by readers of this pool.
    pub gets: u64,
    /// Pages of this pool that were found and returned, to readers of any pool.
    pub hits: u64,
    /// Pages requested by readers of this pool and not returned.
    pub misses: u64,
    /// Pages freed because the guest flushed or overwrote them, or requested a run that was
    /// incomplete.
    pub flushes: u64,
    /// Pages evicted to make room for other pages.
    pub evictions: u64,
    /// Pages that were migrated from other pools.
    pub moved_in: u64,
    /// Pages that were migrated to other pools.
    pub moved_out: u64,
    /// Pages owned by other pools that were hit by readers of this pool.
    pub hits_foreign: u64,
    /// Get calls whose first run belongs to this pool.
    pub get_batches: u64,
    /// Put calls whose first run belongs to this pool.
    pub put_batches: u64,
    /// Duration of get calls at the host.
    pub get_latency: Histogram,
    /// Duration of put calls at the host.
    pub put_latency: Histogram,
    /// Puts refused: the guest's frame was not in the host's memory, and puts do not wait for it to
    /// be read in.
    pub put_refused_absent: u64,
    /// Pages currently held in the SSD tier.
    pub ssd_used: u64,
    /// Pages stored in the SSD tier.
    pub ssd_puts: u64,
    /// Pages found in the SSD tier.
    pub ssd_hits: u64,
    /// Pages of the SSD tier that were freed because the guest flushed or overwrote them, or
    /// because they could not be read.
    pub ssd_flushes: u64,
    /// Pages of the SSD tier that were evicted to make room for other pages.
    pub ssd_evictions: u64,
    /// Pages that moved from the memory tier to the SSD tier.
    pub demoted: u64,
    /// Pages that moved from the SSD tier to the memory tier.
    pub promoted: u64,
    /// Duration of get calls at the host that read pages of the SSD tier. These calls are not
    /// counted in `get_latency`.
    pub ssd_get_latency: Histogram,
    /// Puts refused: the pool's pages go to the SSD tier, and its [`SsdAdmit`] does not admit
    /// these.
    pub put_refused_unproven: u64,
    /// Pages evicted from the memory tier instead of demoted, because the pool's [`SsdAdmit`] does
    /// not admit them to the SSD tier.
    pub evictions_unproven: u64,
    /// Pages found in the SSD tier that stayed there ([`crate::answer::RETAINED`]).
    pub hits_retained: u64,
    /// Puts refused: the pool's pages go to the SSD tier, and no device takes them: there is none
    /// that works and keeps up, its write budget is used up, or no segment could be freed.
    pub put_refused_device: u64,
}

impl PoolStats {
    /// Returns the number of pages whose puts were refused, for whatever reason.
    pub const fn put_refused(&self) -> u64 {
        self.put_refused_off
            .saturating_add(self.put_refused_memory)
            .saturating_add(self.put_refused_device)
            .saturating_add(self.put_refused_fault)
            .saturating_add(self.put_refused_absent)
            .saturating_add(self.put_refused_unproven)
    }

    /// Adds the counters and the held pages of another pool. Weight and entitlements are not
    /// changed. Sums wrap around, like the counters themselves.
    pub fn merge(&mut self, other: &Self) {
        macro_rules! add {
            ($($field:ident)*) => {
                $(self.$field = self.$field.wrapping_add(other.$field);)*
            };
        }
        add! {
            used puts put_refused_off put_refused_memory put_refused_fault gets hits misses flushes
            evictions moved_in moved_out hits_foreign get_batches put_batches put_refused_absent
            ssd_used ssd_puts ssd_hits ssd_flushes ssd_evictions demoted promoted
            put_refused_unproven evictions_unproven hits_retained put_refused_device
        }
        let histograms = [
            (&mut self.get_latency, &other.get_latency),
            (&mut self.put_latency, &other.put_latency),
            (&mut self.ssd_get_latency, &other.ssd_get_latency),
        ];
        for (sum, other) in histograms {
            for (sum, other) in sum.iter_mut().zip(other) {
                *sum = sum.wrapping_add(*other);
            }
        }
    }

    /// Returns the pages held now in the memory tier.
    pub const fn memory_used(&self) -> u64 {
        self.used.saturating_sub(self.ssd_used)
    }

    /// Returns the value of `used` that follows from the counters.
    pub const fn expected_used(&self) -> u64 {
        let came = self.puts.wrapping_add(self.moved_in);
        let hits = self.hits.wrapping_sub(self.hits_retained);
        let left = hits
            .wrapping_add(self.flushes)
            .wrapping_add(self.evictions)
            .wrapping_add(self.moved_out);
        came.wrapping_sub(left)
    }

    /// Returns the value of `ssd_used` that follows from the counters.
    pub const fn expected_ssd_used(&self) -> u64 {
        let came = self.ssd_puts.wrapping_add(self.demoted);
        let hits = self.ssd_hits.wrapping_sub(self.hits_retained);
        let left = hits
            .wrapping_add(self.ssd_flushes)
            .wrapping_add(self.ssd_evictions)
            .wrapping_add(self.promoted);
        came.wrapping_sub(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::{FromBytes, IntoBytes};

    /// A counter that is added to the structure must be merged too.
    #[test]
    fn merging_adds_all_but_weight_and_entitlement() {
        const WORDS: usize = size_of::<PoolStats>() / size_of::<u64>();
        let ones = PoolStats::read_from_bytes([1u64; WORDS].as_bytes()).unwrap();
        let mut sum = PoolStats::default();
        sum.merge(&ones);
        sum.merge(&ones);
        let mut expected = [2u64; WORDS];
        expected[..3].fill(0);
        assert_eq!(sum.as_bytes(), expected.as_bytes());
    }

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
