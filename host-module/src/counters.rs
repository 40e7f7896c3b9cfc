// SPDX-License-Identifier: GPL-2.0-only

//! The module's counters.

use crate::stripe::{self, STRIPES};
use ddabi::counters::HostCounters;
use ddabi::pool::{histogram_bucket, Histogram, HISTOGRAM_BUCKETS};
use ddabi::PAGE_SIZE;
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

/// A value for each stripe of processors, with cache lines of its own.
pub(crate) struct Striped<T>([Stripe<T>; STRIPES]);

#[repr(align(64))]
struct Stripe<T>(T);

impl<T> Striped<T> {
    /// Returns the value of the current processor's stripe.
    fn current(&self) -> &T {
        &self.0[stripe::current()].0
    }

    /// Returns the sum of a counter or gauge over all stripes. A gauge may have been raised in one
    /// stripe and lowered in another, so that a part can be below zero. The sum can be below zero
    /// while the parts change, because they are read one after the other.
    fn sum(&self, part: impl Fn(&T) -> &Counter) -> u64 {
        let parts = self.0.iter().map(|stripe| part(&stripe.0).get());
        let sum = parts.fold(0, u64::wrapping_add);
        (sum as i64).max(0) as u64
    }
}

/// A gauge that many processors change at the same time.
pub(crate) type StripedGauge = Striped<Counter>;

impl StripedGauge {
    pub(crate) const fn new() -> Self {
        Self([const { Stripe(Counter::new()) }; STRIPES])
    }

    pub(crate) fn add(&self, amount: u64) {
        self.current().add(amount);
    }

    pub(crate) fn subtract(&self, amount: u64) {
        self.current().subtract(amount);
    }

    pub(crate) fn get(&self) -> u64 {
        self.sum(|gauge| gauge)
    }
}

/// A histogram of the durations of calls.
pub(crate) struct Latency([Counter; HISTOGRAM_BUCKETS]);

impl Latency {
    pub(crate) const fn new() -> Self {
        Self([const { Counter::new() }; HISTOGRAM_BUCKETS])
    }

    /// Counts a call with this duration.
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
            const fn new() -> Self {
                Self { $($name: Counter::new(),)* }
            }
        }

        /// Returns the sums of all counters. They are read one after the other and not at one
        /// moment.
        pub(crate) fn snapshot() -> HostCounters {
            HostCounters { $($name: TOTALS.sum(|totals| &totals.$name),)* }
        }
    };
}

/// The counters of the module.
static TOTALS: Striped<Totals> = Striped([const { Stripe(Totals::new()) }; STRIPES]);

/// Returns the memory of the index in pages.
pub(crate) fn index_pages() -> u64 {
    TOTALS.sum(|totals| &totals.index_bytes) / PAGE_SIZE as u64
}

/// Returns the counters that the current processor adds to.
pub(crate) fn totals() -> &'static Totals {
    TOTALS.current()
}

totals! {
    calls refused_invalid refused_user refused_unsupported refused_session refused_rollback
    retries refused_fault refused_absent refused_limit refused_memory dirty_tracked gets_deferred vms_came
    vms_went eviction_batches evicted demoted promoted shrunk shrink_refused notices_lost events_dropped index_bytes
}
