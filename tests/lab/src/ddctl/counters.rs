// SPDX-License-Identifier: GPL-2.0-only

//! The counters of the modules, as printed by `ddctl --json`; see `ddabi`.

use std::ops::{Add, Sub};

use serde::Deserialize;

macro_rules! counters {
    ($(#[$about:meta])* $name:ident { $($counter:ident)* }) => {
        $(#[$about])*
        ///
        /// The difference of two values has the events in between. That of gauges may be below
        /// zero, and then wraps around.
        #[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
        pub struct $name {
            $(pub $counter: u64,)*
        }

        impl Add for $name {
            type Output = Self;

            fn add(self, more: Self) -> Self {
                Self { $($counter: self.$counter.wrapping_add(more.$counter),)* }
            }
        }

        impl Sub for $name {
            type Output = Self;

            fn sub(self, before: Self) -> Self {
                Self { $($counter: self.$counter.wrapping_sub(before.$counter),)* }
            }
        }
    };
}

counters! {
    /// Of the guest module.
    GuestCounters {
        calls put_calls get_calls flush_calls retries sessions put_offered put_stored get_asked get_hits
        put_retained put_skipped_policy put_skipped_throttle put_skipped_slots put_skipped_map get_misses read_absent
        changes invalidated evicted map_files map_pages map_bytes flushes_waiting stale
    }
}

counters! {
    /// Of the host module.
    HostCounters {
        calls refused_invalid refused_user refused_unsupported refused_session refused_rollback
        retries refused_fault refused_absent refused_limit refused_memory dirty_tracked gets_deferred
        vms_came vms_went eviction_batches evicted demoted promoted shrunk shrink_refused notices_lost events_dropped
        index_bytes
    }
}

counters! {
    /// Of a pool, or summed up over a VM.
    PoolStats {
        weight entitlement used puts gets hits misses flushes evictions moved_in moved_out
        hits_foreign get_batches put_batches put_refused_off put_refused_memory put_refused_fault put_refused_absent
        ssd_used ssd_puts ssd_hits ssd_flushes ssd_evictions demoted promoted put_refused_device put_refused_unproven
        evictions_unproven hits_retained
    }
}

impl PoolStats {
    /// Returns the value that `used` must have according to the other counters.
    pub fn expected_used(&self) -> u64 {
        (self.puts + self.moved_in)
            .wrapping_sub(self.hits - self.hits_retained + self.flushes)
            .wrapping_sub(self.evictions + self.moved_out)
    }

    /// Returns the value that `ssd_used` must have by the other counters.
    pub fn expected_ssd_used(&self) -> u64 {
        (self.ssd_puts + self.demoted)
            .wrapping_sub(self.ssd_hits - self.hits_retained + self.ssd_flushes)
            .wrapping_sub(self.ssd_evictions + self.promoted)
    }
}
