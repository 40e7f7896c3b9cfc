// SPDX-License-Identifier: GPL-2.0-only

//! The tracepoints of the module (`shim/tracepoints.h`); `docs/users/tracepoints.md` describes
//! them. Latencies are in nanoseconds, and are measured only while the tracepoint is on.

use crate::tracepoint::tracepoints;
use kernel::prelude::*;
use kernel::time::{Instant, Monotonic};

tracepoints! {
    /// A VM has registered. It had a session before if `again` is set.
    vm_register_is_on = dd_trace_vm_register_on,
    vm_register = dd_trace_vm_register(vm: u32, pid: u32, again: bool);

    /// The session of a VM has ended. It held `pages` pages in both tiers together.
    vm_unregister_is_on = dd_trace_vm_unregister_on,
    vm_unregister = dd_trace_vm_unregister(vm: u32, pid: u32, pages: u64);

    /// A put has ended. `pool` is that of its first run.
    put_is_on = dd_trace_put_on,
    put = dd_trace_put(vm: u32, pool: u32, pages: u32, stored: u32, latency: u64);

    /// A run of a put was refused.
    put_refused_is_on = dd_trace_put_refused_on,
    put_refused = dd_trace_put_refused(vm: u32, pool: u32, pages: u32, reason: &'static CStr);

    /// A get has ended. `memory` and `ssd` are the pages that the guest got from each tier, and
    /// `tier` is the slower one of those in which pages were found.
    get_is_on = dd_trace_get_on,
    get = dd_trace_get(
        vm: u32,
        pool: u32,
        pages: u32,
        memory: u32,
        ssd: u32,
        tier: &'static CStr,
        latency: u64
    );

    /// A flush has ended. It is not `finished` if the guest has to repeat some ranges.
    flush_is_on = dd_trace_flush_on,
    flush = dd_trace_flush(vm: u32, ranges: u32, pages: u64, finished: bool, latency: u64);

    /// The limit of the memory tier fell to `pages`.
    limit_is_on = dd_trace_limit_on,
    limit = dd_trace_limit(pages: u64, capacity: u64);

    /// Pages of a pool were evicted.
    evict_is_on = dd_trace_evict_on,
    evict = dd_trace_evict(
        vm: u32,
        pool: u32,
        pages: u64,
        tier: &'static CStr,
        reason: &'static CStr
    );

    /// Pages of a pool moved to the SSD tier.
    demote_is_on = dd_trace_demote_on,
    demote = dd_trace_demote(vm: u32, pool: u32, pages: u64);

    /// Pages of a pool moved to the memory tier.
    promote_is_on = dd_trace_promote_on,
    promote = dd_trace_promote(vm: u32, pool: u32, pages: u64);

    /// A read of a device has ended, or has timed out.
    ssd_read_is_on = dd_trace_ssd_read_on,
    ssd_read = dd_trace_ssd_read(device: u32, pages: u32, error: i32, latency: u64);

    /// A write to a device has ended.
    ssd_write_is_on = dd_trace_ssd_write_on,
    ssd_write = dd_trace_ssd_write(device: u32, pages: u32, error: i32, latency: u64);

    /// A device was added, was removed, or is in another state.
    ssd_state_is_on = dd_trace_ssd_state_on,
    ssd_state = dd_trace_ssd_state(device: u32, state: &'static CStr);
}

/// Returns the nanoseconds since `start`.
pub(crate) fn nanoseconds_since(start: Instant<Monotonic>) -> u64 {
    start.elapsed().as_nanos().max(0) as u64
}
