// SPDX-License-Identifier: GPL-2.0-only
/* <linux/tracepoint.h>: functions by which Rust passes the events of tracepoints.h. */

#define CREATE_TRACE_POINTS
#include "tracepoints.h"
#include "../../shim/tracepoint.h"

DD_TRACEPOINT(vm_register, TP_PROTO(u32 vm, u32 pid, bool again), TP_ARGS(vm, pid, again))
DD_TRACEPOINT(vm_unregister, TP_PROTO(u32 vm, u32 pid, u64 pages), TP_ARGS(vm, pid, pages))
DD_TRACEPOINT(put, TP_PROTO(u32 vm, u32 pool, u32 pages, u32 stored, u64 latency),
	      TP_ARGS(vm, pool, pages, stored, latency))
DD_TRACEPOINT(put_refused, TP_PROTO(u32 vm, u32 pool, u32 pages, const char *reason),
	      TP_ARGS(vm, pool, pages, reason))
DD_TRACEPOINT(get,
	      TP_PROTO(u32 vm, u32 pool, u32 pages, u32 memory, u32 ssd, const char *tier,
		       u64 latency),
	      TP_ARGS(vm, pool, pages, memory, ssd, tier, latency))
DD_TRACEPOINT(flush, TP_PROTO(u32 vm, u32 ranges, u64 pages, bool finished, u64 latency),
	      TP_ARGS(vm, ranges, pages, finished, latency))
DD_TRACEPOINT(limit, TP_PROTO(u64 pages, u64 capacity), TP_ARGS(pages, capacity))
DD_TRACEPOINT(evict,
	      TP_PROTO(u32 vm, u32 pool, u64 pages, const char *tier, const char *reason),
	      TP_ARGS(vm, pool, pages, tier, reason))
DD_TRACEPOINT(demote, TP_PROTO(u32 vm, u32 pool, u64 pages), TP_ARGS(vm, pool, pages))
DD_TRACEPOINT(promote, TP_PROTO(u32 vm, u32 pool, u64 pages), TP_ARGS(vm, pool, pages))
DD_TRACEPOINT(ssd_read, TP_PROTO(u32 device, u32 pages, int error, u64 latency),
	      TP_ARGS(device, pages, error, latency))
DD_TRACEPOINT(ssd_write, TP_PROTO(u32 device, u32 pages, int error, u64 latency),
	      TP_ARGS(device, pages, error, latency))
DD_TRACEPOINT(ssd_state, TP_PROTO(u32 device, const char *state), TP_ARGS(device, state))
