// SPDX-License-Identifier: GPL-2.0-only

//! Counters of each module. They only increase, except those that are described as gauges.

use crate::pool::Histogram;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Counters of the guest module, in pages unless a field says otherwise.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct GuestCounters {
    /// Hypercalls of any kind, including retries.
    pub calls: u64,
    /// Hypercalls with the operation Put.
    pub put_calls: u64,
    /// Hypercalls with the operation Get.
    pub get_calls: u64,
    /// Hypercalls with the operation Flush.
    pub flush_calls: u64,
    /// Calls answered with Retry.
    pub retries: u64,
    /// Calls answered with Stale.
    pub stale: u64,
    /// Sessions that were begun.
    pub sessions: u64,
    /// Clean pages that were reclaimed from the page cache and offered to the host.
    pub put_offered: u64,
    /// Pages whose puts the host confirmed.
    pub put_stored: u64,
    /// Not offered, because the SSD tier still has a valid copy: pages that it returned and kept,
    /// and that did not change in the page cache.
    pub put_retained: u64,
    /// Not offered: the mapping is not of a kind that is cached.
    pub put_skipped_mapping: u64,
    /// Not offered: not up to date, poisoned, beyond the end of the file, or with private state.
    pub put_skipped_page: u64,
    /// Not offered: direct I/O on the file was under way, or the file had a write error.
    pub put_skipped_io: u64,
    /// Not offered: an older put of the same page was in flight.
    pub put_skipped_busy: u64,
    /// Not offered: the presence map had no free slot.
    pub put_skipped_map: u64,
    /// Not offered: too many tasks or folios were being reclaimed, so that no slot for a deferred
    /// put was free.
    pub put_skipped_slots: u64,
    /// Not offered: the pool's weight is zero.
    pub put_skipped_off: u64,
    /// Not offered: the pool's policy values the pages at the host more.
    pub put_skipped_policy: u64,
    /// Not offered: the pool has too few hits for its puts.
    pub put_skipped_throttle: u64,
    /// Offered and refused by the host.
    pub put_refused: u64,
    /// Pages read without a call, because their bit was clear.
    pub read_absent: u64,
    /// Pages requested from the host.
    pub get_asked: u64,
    /// Pages that the host returned.
    pub get_hits: u64,
    /// Pages requested that the host did not return.
    pub get_misses: u64,
    /// Changes of a file's content, each of which costs a lookup in the map.
    pub changes: u64,
    /// Bits cleared because a page's content changed, or because the page left the page cache other
    /// than by reclaim.
    pub invalidated: u64,
    /// Bits cleared by the host's eviction notices.
    pub evicted: u64,
    /// Bits dropped to keep the map within its size limit.
    pub map_dropped: u64,
    /// Gauge: files in the map.
    pub map_files: u64,
    /// Gauge: bits set.
    pub map_pages: u64,
    /// Gauge: bytes of the map.
    pub map_bytes: u64,
    /// Gauge: ranges of pages that wait to be flushed, or are being flushed. The host has pages in
    /// them that will not be read.
    pub flushes_waiting: u64,
    /// Duration of get calls, measured in the guest.
    pub get_latency: Histogram,
    /// Duration of put calls, measured in the guest.
    pub put_latency: Histogram,
}

/// Counters of the guest for a pool, in pages unless a field says otherwise.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct AdmissionCounters {
    /// Clean pages that were reclaimed from the page cache and could have been put.
    pub offered: u64,
    /// Of these, pages refused because the policy values the pages at the host more.
    pub refused_policy: u64,
    /// Of these, pages refused because the pool has too few hits for its puts.
    pub refused_throttle: u64,
    /// Pages read that were not in the page cache. The count is halved every few minutes.
    pub reads: u64,
    /// Gauge: the current way of admission of `adaptive` (`ddcore::policy::shadow::Way`).
    pub way: u64,
    /// Gauge: level of the throttle. At level n, one put in 2^n is allowed.
    pub throttle: u64,
    /// Gauge: bytes of the pool's history.
    pub history_bytes: u64,
    /// Gauge: standard error of the curve, in thousandths of the reads.
    pub curve_error_permille: u64,
}

/// A point of the curve of a pool.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct CurvePoint {
    /// Size of the pool at the host in pages.
    pub pages: u64,
    /// Number of [`AdmissionCounters::reads`] that would have been hits at this size.
    pub hits: u64,
}

/// Counters of the host module.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct HostCounters {
    /// Hypercalls received.
    pub calls: u64,
    /// Calls refused: malformed.
    pub refused_invalid: u64,
    /// Calls refused: not from kernel mode.
    pub refused_user: u64,
    /// Calls refused: another ABI version or unknown operation.
    pub refused_unsupported: u64,
    /// Calls refused: unknown session.
    pub refused_session: u64,
    /// Calls refused: sequence seen before (rollback).
    pub refused_rollback: u64,
    /// Calls answered with Retry: overtaken by a later call.
    pub retries: u64,
    /// Calls refused: the request page could not be read.
    pub refused_fault: u64,
    /// Calls answered with Retry: the request page was not in the host's memory.
    pub refused_absent: u64,
    /// Registrations refused: the limit on registered VMs (`max_vms`) was reached.
    pub refused_limit: u64,
    /// Calls refused: kernel memory could not be allocated.
    pub refused_memory: u64,
    /// Gets answered with misses because KVM tracked dirty pages.
    pub dirty_tracked: u64,
    /// Gets that were deferred, so that their readers slept in the guests while pages of the SSD
    /// tier were read.
    pub gets_deferred: u64,
    /// VMs that registered.
    pub vms_came: u64,
    /// VMs whose registration ended.
    pub vms_went: u64,
    /// Eviction batches run.
    pub eviction_batches: u64,
    /// Pages evicted to make room for other pages.
    pub evicted: u64,
    /// Pages moved from the memory tier to the SSD tier.
    pub demoted: u64,
    /// Pages moved from the SSD tier to the memory tier.
    pub promoted: u64,
    /// Pages freed by the shrinker.
    pub shrunk: u64,
    /// Calls of the shrinker that freed no page although VMs held pages above the floor.
    pub shrink_refused: u64,
    /// Eviction notices lost because a queue was full.
    pub notices_lost: u64,
    /// Events that were not sent because a VM caused too many.
    pub events_dropped: u64,
    /// Gauge: bytes of index memory.
    pub index_bytes: u64,
}
