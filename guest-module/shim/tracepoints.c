// SPDX-License-Identifier: GPL-2.0-only
/* <linux/tracepoint.h>: functions by which Rust passes the events of tracepoints.h. */

#define CREATE_TRACE_POINTS
#include "tracepoints.h"
#include "../../shim/tracepoint.h"

DD_TRACEPOINT(put,
	      TP_PROTO(u32 pool, u64 inode, u64 index, u32 pages, u32 stored, u64 latency),
	      TP_ARGS(pool, inode, index, pages, stored, latency))
DD_TRACEPOINT(get, TP_PROTO(u32 pool, u64 inode, u64 index, u32 pages, u32 hits, u64 latency),
	      TP_ARGS(pool, inode, index, pages, hits, latency))
DD_TRACEPOINT(invalidate,
	      TP_PROTO(u32 filesystem, u64 inode, u64 first, u64 last, u64 pages,
		       const char *cause),
	      TP_ARGS(filesystem, inode, first, last, pages, cause))
DD_TRACEPOINT(attach, TP_PROTO(int error, u64 latency), TP_ARGS(error, latency))
DD_TRACEPOINT(detach, TP_PROTO(u64 latency), TP_ARGS(latency))
DD_TRACEPOINT(session_begin, TP_PROTO(u32 vm, u32 pools), TP_ARGS(vm, pools))
DD_TRACEPOINT(session_end, TP_PROTO(u32 vm, const char *reason), TP_ARGS(vm, reason))
