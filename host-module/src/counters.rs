// SPDX-License-Identifier: GPL-2.0-only

//! The module's counters.

use ddabi::counters::HostCounters;
use ddabi::pool::{histogram_bucket, Histogram, HISTOGRAM_BUCKETS};
use kernel::sync::atomic::{ordering::Relaxed, Atomic};

/// A counter, or a gauge that also falls.
pub(crate) struct Counter(Atomic<u64>);

impl Counter {
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    pub(crate) fn add(&self, amount: u64) {
        self.0.add(amount, Relaxed);
    }

    pub(crate) fn subtract(&self, amount: u64) {
        self.0.fetch_sub(amount, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

/// A histogram of the durations of calls.
pub(crate) struct Latency([Counter; HISTOGRAM_BUCKETS]);

impl Latency {
    pub(crate) const fn new() -> Self {
        Self([const { Counter::new() }; HISTOGRAM_BUCKETS])
    }

    /// Counts a call that took so many nanoseconds.
    pub(crate) fn record(&self, nanoseconds: u64) {
        self.0[histogram_bucket(nanoseconds)].add(1);
    }

    pub(crate) fn snapshot(&self) -> Histogram {
        core::array::from_fn(|bucket| self.0[bucket].get())
    }

    pub(crate) fn reset(&self) {
        for bucket in &self.0 {
            bucket.set(0);
        }
    }
}

macro_rules! totals {
    ($($name:ident)*) => {
        /// The module's counters; see [`HostCounters`].
        pub(crate) struct Totals {
            $(pub(crate) $name: Counter,)*
        }

        impl Totals {
            pub(crate) const fn new() -> Self {
                Self { $($name: Counter::new(),)* }
            }

            /// Reads all counters, one after the other and not at one moment.
            pub(crate) fn snapshot(&self) -> HostCounters {
                HostCounters { $($name: self.$name.get(),)* }
            }
        }
    };
}

/// The counters of the module.
pub(crate) static TOTALS: Totals = Totals::new();

totals! {
    calls refused_invalid refused_user refused_unsupported refused_session refused_rollback
    retries refused_fault refused_absent refused_limit refused_memory dirty_tracked gets_deferred vms_came
    vms_went eviction_batches evicted demoted promoted shrunk shrink_refused notices_lost events_dropped index_bytes
}
