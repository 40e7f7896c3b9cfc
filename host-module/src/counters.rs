// SPDX-License-Identifier: GPL-2.0-only

//! The module's counters.

use crate::stripe::{self, STRIPES};
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

/// A gauge that many processors change at the same time.
pub(crate) struct StripedGauge([Stripe; STRIPES]);

#[repr(align(64))]
struct Stripe(Counter);

impl StripedGauge {
    pub(crate) const fn new() -> Self {
        Self([const { Stripe(Counter::new()) }; STRIPES])
    }

    pub(crate) fn add(&self, amount: u64) {
        self.0[stripe::current()].0.add(amount);
    }

    pub(crate) fn subtract(&self, amount: u64) {
        self.0[stripe::current()].0.subtract(amount);
    }

    pub(crate) fn get(&self) -> u64 {
        sum(self.0.iter().map(|stripe| &stripe.0))
    }
}

/// Returns the sum of the parts of a counter or gauge. A gauge may have been raised in one part and
/// lowered in another, so that a part can be below zero; and the sum can be while the parts change,
/// because they are read one after the other.
fn sum<'a>(parts: impl Iterator<Item = &'a Counter>) -> u64 {
    let sum = parts.fold(0, |sum: u64, part| sum.wrapping_add(part.get()));
    (sum as i64).max(0) as u64
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
        #[repr(align(64))]
        pub(crate) struct Totals {
            $(pub(crate) $name: Counter,)*
        }

        impl Totals {
            const fn new() -> Self {
                Self { $($name: Counter::new(),)* }
            }
        }

        /// Returns the sums of all counters. They are read one after the other and not at one moment.
        pub(crate) fn snapshot() -> HostCounters {
            HostCounters { $($name: sum(TOTALS.iter().map(|totals| &totals.$name)),)* }
        }
    };
}

/// The counters of the module, one set for each stripe of processors.
static TOTALS: [Totals; STRIPES] = [const { Totals::new() }; STRIPES];

/// Returns the counters that the current processor adds to.
pub(crate) fn totals() -> &'static Totals {
    &TOTALS[stripe::current()]
}

totals! {
    calls refused_invalid refused_user refused_unsupported refused_session refused_rollback
    retries refused_fault refused_absent refused_limit refused_memory dirty_tracked gets_deferred vms_came
    vms_went eviction_batches evicted demoted promoted shrunk shrink_refused notices_lost events_dropped index_bytes
}
