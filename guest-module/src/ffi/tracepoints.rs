// SPDX-License-Identifier: GPL-2.0-only

//! The tracepoints of the module (`shim/tracepoints.h`); `docs/users/tracepoints.md` describes
//! them. Latencies are in nanoseconds, and are measured only while the tracepoint is on.

use crate::tracepoint::tracepoints;
use kernel::prelude::*;
use kernel::time::{Instant, Monotonic};

tracepoints! {
    /// A put call has ended. `pool`, `inode` and `index` are those of its first run.
    put_is_on = dd_trace_put_on,
    put = dd_trace_put(pool: u32, inode: u64, index: u64, pages: u32, stored: u32, latency: u64);

    /// A get call has ended. `pool`, `inode` and `index` are those of its first run.
    get_is_on = dd_trace_get_on,
    get = dd_trace_get(pool: u32, inode: u64, index: u64, pages: u32, hits: u32, latency: u64);

    /// Pages that the host may have became invalid.
    invalidate_is_on = dd_trace_invalidate_on,
    invalidate = dd_trace_invalidate(
        filesystem: u32,
        inode: u64,
        first: u64,
        last: u64,
        pages: u64,
        cause: &'static CStr
    );

    /// The hooks were attached, or could not be.
    attach_is_on = dd_trace_attach_on,
    attach = dd_trace_attach(error: i32, latency: u64);

    /// The hooks were detached, and no diverted call is left.
    detach_is_on = dd_trace_detach_on,
    detach = dd_trace_detach(latency: u64);

    /// A session with the host begins.
    session_begin_is_on = dd_trace_session_begin_on,
    session_begin = dd_trace_session_begin(vm: u32, pools: u32);

    /// The session with the host has ended.
    session_end_is_on = dd_trace_session_end_on,
    session_end = dd_trace_session_end(vm: u32, reason: &'static CStr);
}

/// Returns the nanoseconds since `start`.
pub(crate) fn nanoseconds_since(start: Instant<Monotonic>) -> u64 {
    start.elapsed().as_nanos().max(0) as u64
}
