/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * <linux/tracepoint.h>: the events of the module. docs/users/tracepoints.md describes
 * them and their fields, and a test compares the two.
 *
 * Pages are pages of 4 KiB, and latencies are in nanoseconds. Fields that are
 * words are copied into the record, so that filters, histograms and BPF programs
 * can use them. No event has kernel pointers or session identifiers.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM doubledecker_host

#if !defined(DD_HOST_TRACEPOINTS_H) || defined(TRACE_HEADER_MULTI_READ)
#define DD_HOST_TRACEPOINTS_H

#include <linux/tracepoint.h>

TRACE_EVENT(dd_vm_register,
	TP_PROTO(u32 vm, u32 pid, bool again),
	TP_ARGS(vm, pid, again),
	TP_STRUCT__entry(
		__field(u32, vm)
		__field(u32, vmm_pid)
		__field(bool, again)
	),
	TP_fast_assign(
		__entry->vm = vm;
		__entry->vmm_pid = pid;
		__entry->again = again;
	),
	TP_printk("vm=%u vmm_pid=%u again=%d", __entry->vm, __entry->vmm_pid, __entry->again)
);

TRACE_EVENT(dd_vm_unregister,
	TP_PROTO(u32 vm, u32 pid, u64 pages),
	TP_ARGS(vm, pid, pages),
	TP_STRUCT__entry(
		__field(u64, pages)
		__field(u32, vm)
		__field(u32, vmm_pid)
	),
	TP_fast_assign(
		__entry->pages = pages;
		__entry->vm = vm;
		__entry->vmm_pid = pid;
	),
	TP_printk("vm=%u vmm_pid=%u pages=%llu", __entry->vm, __entry->vmm_pid, __entry->pages)
);

TRACE_EVENT(dd_put,
	TP_PROTO(u32 vm, u32 pool, u32 pages, u32 stored, u64 latency),
	TP_ARGS(vm, pool, pages, stored, latency),
	TP_STRUCT__entry(
		__field(u64, latency_ns)
		__field(u32, vm)
		__field(u32, pool)
		__field(u32, pages)
		__field(u32, stored)
	),
	TP_fast_assign(
		__entry->latency_ns = latency;
		__entry->vm = vm;
		__entry->pool = pool;
		__entry->pages = pages;
		__entry->stored = stored;
	),
	TP_printk("vm=%u pool=%u pages=%u stored=%u latency_ns=%llu", __entry->vm, __entry->pool,
		  __entry->pages, __entry->stored, __entry->latency_ns)
);

TRACE_EVENT(dd_put_refused,
	TP_PROTO(u32 vm, u32 pool, u32 pages, const char *reason),
	TP_ARGS(vm, pool, pages, reason),
	TP_STRUCT__entry(
		__field(u32, vm)
		__field(u32, pool)
		__field(u32, pages)
		__array(char, reason, 12)
	),
	TP_fast_assign(
		__entry->vm = vm;
		__entry->pool = pool;
		__entry->pages = pages;
		strscpy(__entry->reason, reason, sizeof(__entry->reason));
	),
	TP_printk("vm=%u pool=%u pages=%u reason=%s", __entry->vm, __entry->pool, __entry->pages,
		  __entry->reason)
);

TRACE_EVENT(dd_get,
	TP_PROTO(u32 vm, u32 pool, u32 pages, u32 memory, u32 ssd, const char *tier, u64 latency),
	TP_ARGS(vm, pool, pages, memory, ssd, tier, latency),
	TP_STRUCT__entry(
		__field(u64, latency_ns)
		__field(u32, vm)
		__field(u32, pool)
		__field(u32, pages)
		__field(u32, memory_pages)
		__field(u32, ssd_pages)
		__array(char, tier, 8)
	),
	TP_fast_assign(
		__entry->latency_ns = latency;
		__entry->vm = vm;
		__entry->pool = pool;
		__entry->pages = pages;
		__entry->memory_pages = memory;
		__entry->ssd_pages = ssd;
		strscpy(__entry->tier, tier, sizeof(__entry->tier));
	),
	TP_printk("vm=%u pool=%u pages=%u memory_pages=%u ssd_pages=%u tier=%s latency_ns=%llu",
		  __entry->vm, __entry->pool, __entry->pages, __entry->memory_pages,
		  __entry->ssd_pages, __entry->tier, __entry->latency_ns)
);

TRACE_EVENT(dd_flush,
	TP_PROTO(u32 vm, u32 ranges, u64 pages, bool finished, u64 latency),
	TP_ARGS(vm, ranges, pages, finished, latency),
	TP_STRUCT__entry(
		__field(u64, pages)
		__field(u64, latency_ns)
		__field(u32, vm)
		__field(u32, ranges)
		__field(bool, finished)
	),
	TP_fast_assign(
		__entry->pages = pages;
		__entry->latency_ns = latency;
		__entry->vm = vm;
		__entry->ranges = ranges;
		__entry->finished = finished;
	),
	TP_printk("vm=%u ranges=%u pages=%llu finished=%d latency_ns=%llu", __entry->vm,
		  __entry->ranges, __entry->pages, __entry->finished, __entry->latency_ns)
);

TRACE_EVENT(dd_limit,
	TP_PROTO(u64 pages, u64 capacity),
	TP_ARGS(pages, capacity),
	TP_STRUCT__entry(
		__field(u64, pages)
		__field(u64, capacity)
	),
	TP_fast_assign(
		__entry->pages = pages;
		__entry->capacity = capacity;
	),
	TP_printk("pages=%llu capacity=%llu", __entry->pages, __entry->capacity)
);

TRACE_EVENT(dd_evict,
	TP_PROTO(u32 vm, u32 pool, u64 pages, const char *tier, const char *reason),
	TP_ARGS(vm, pool, pages, tier, reason),
	TP_STRUCT__entry(
		__field(u64, pages)
		__field(u32, vm)
		__field(u32, pool)
		__array(char, tier, 8)
		__array(char, reason, 12)
	),
	TP_fast_assign(
		__entry->pages = pages;
		__entry->vm = vm;
		__entry->pool = pool;
		strscpy(__entry->tier, tier, sizeof(__entry->tier));
		strscpy(__entry->reason, reason, sizeof(__entry->reason));
	),
	TP_printk("vm=%u pool=%u pages=%llu tier=%s reason=%s", __entry->vm, __entry->pool,
		  __entry->pages, __entry->tier, __entry->reason)
);

DECLARE_EVENT_CLASS(dd_relocate,
	TP_PROTO(u32 vm, u32 pool, u64 pages),
	TP_ARGS(vm, pool, pages),
	TP_STRUCT__entry(
		__field(u64, pages)
		__field(u32, vm)
		__field(u32, pool)
	),
	TP_fast_assign(
		__entry->pages = pages;
		__entry->vm = vm;
		__entry->pool = pool;
	),
	TP_printk("vm=%u pool=%u pages=%llu", __entry->vm, __entry->pool, __entry->pages)
);

DEFINE_EVENT(dd_relocate, dd_demote,
	TP_PROTO(u32 vm, u32 pool, u64 pages),
	TP_ARGS(vm, pool, pages)
);

DEFINE_EVENT(dd_relocate, dd_promote,
	TP_PROTO(u32 vm, u32 pool, u64 pages),
	TP_ARGS(vm, pool, pages)
);

DECLARE_EVENT_CLASS(dd_ssd_io,
	TP_PROTO(u32 device, u32 pages, int error, u64 latency),
	TP_ARGS(device, pages, error, latency),
	TP_STRUCT__entry(
		__field(u64, latency_ns)
		__field(u32, device)
		__field(u32, pages)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->latency_ns = latency;
		__entry->device = device;
		__entry->pages = pages;
		__entry->error = error;
	),
	TP_printk("device=%u pages=%u error=%d latency_ns=%llu", __entry->device, __entry->pages,
		  __entry->error, __entry->latency_ns)
);

DEFINE_EVENT(dd_ssd_io, dd_ssd_read,
	TP_PROTO(u32 device, u32 pages, int error, u64 latency),
	TP_ARGS(device, pages, error, latency)
);

DEFINE_EVENT(dd_ssd_io, dd_ssd_write,
	TP_PROTO(u32 device, u32 pages, int error, u64 latency),
	TP_ARGS(device, pages, error, latency)
);

TRACE_EVENT(dd_ssd_state,
	TP_PROTO(u32 device, const char *state),
	TP_ARGS(device, state),
	TP_STRUCT__entry(
		__field(u32, device)
		__array(char, state, 8)
	),
	TP_fast_assign(
		__entry->device = device;
		strscpy(__entry->state, state, sizeof(__entry->state));
	),
	TP_printk("device=%u state=%s", __entry->device, __entry->state)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE tracepoints
#include <trace/define_trace.h>
