/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * <linux/tracepoint.h>: the events of the module. docs/users/tracepoints.md describes
 * them and their fields, and a test compares the two.
 *
 * Pages are pages of 4 KiB, and latencies are in nanoseconds. Fields that are
 * words are copied into the record, so that filters, histograms and BPF
 * programs can use them. No event has kernel pointers or session identifiers.
 *
 * Hooks pass these events inside functions of the kernel, some with interrupts
 * off and `i_pages` locked, where the kernel passes events of its own as well
 * (mm_filemap_delete_from_page_cache). Probes of an event must not sleep and
 * neither free nor dirty folios, so that they do not enter a hook again. The
 * tracing core separates events that are passed by interrupts and NMIs in the
 * middle of other events. No event of this module is passed in an NMI, because
 * no hooked function is called there. No lock of the module is held.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM doubledecker_guest

#if !defined(DD_GUEST_TRACEPOINTS_H) || defined(TRACE_HEADER_MULTI_READ)
#define DD_GUEST_TRACEPOINTS_H

#include <linux/tracepoint.h>

TRACE_EVENT(dd_put,
	TP_PROTO(u32 pool, u64 inode, u64 index, u32 pages, u32 stored, u64 latency),
	TP_ARGS(pool, inode, index, pages, stored, latency),
	TP_STRUCT__entry(
		__field(u64, inode)
		__field(u64, index)
		__field(u64, latency_ns)
		__field(u32, pool)
		__field(u32, pages)
		__field(u32, stored)
	),
	TP_fast_assign(
		__entry->inode = inode;
		__entry->index = index;
		__entry->latency_ns = latency;
		__entry->pool = pool;
		__entry->pages = pages;
		__entry->stored = stored;
	),
	TP_printk("pool=%u inode=%llu index=%llu pages=%u stored=%u latency_ns=%llu",
		  __entry->pool, __entry->inode, __entry->index, __entry->pages, __entry->stored,
		  __entry->latency_ns)
);

TRACE_EVENT(dd_get,
	TP_PROTO(u32 pool, u64 inode, u64 index, u32 pages, u32 hits, u64 latency),
	TP_ARGS(pool, inode, index, pages, hits, latency),
	TP_STRUCT__entry(
		__field(u64, inode)
		__field(u64, index)
		__field(u64, latency_ns)
		__field(u32, pool)
		__field(u32, pages)
		__field(u32, hits)
	),
	TP_fast_assign(
		__entry->inode = inode;
		__entry->index = index;
		__entry->latency_ns = latency;
		__entry->pool = pool;
		__entry->pages = pages;
		__entry->hits = hits;
	),
	TP_printk("pool=%u inode=%llu index=%llu pages=%u hits=%u latency_ns=%llu",
		  __entry->pool, __entry->inode, __entry->index, __entry->pages, __entry->hits,
		  __entry->latency_ns)
);

TRACE_EVENT(dd_invalidate,
	TP_PROTO(u32 filesystem, u64 inode, u64 first, u64 last, u64 pages, const char *cause),
	TP_ARGS(filesystem, inode, first, last, pages, cause),
	TP_STRUCT__entry(
		__field(u64, inode)
		__field(u64, first)
		__field(u64, last)
		__field(u64, pages)
		__field(u32, filesystem)
		__array(char, cause, 12)
	),
	TP_fast_assign(
		__entry->inode = inode;
		__entry->first = first;
		__entry->last = last;
		__entry->pages = pages;
		__entry->filesystem = filesystem;
		strscpy(__entry->cause, cause, sizeof(__entry->cause));
	),
	TP_printk("filesystem=%u inode=%llu first=%llu last=%llu pages=%llu cause=%s",
		  __entry->filesystem, __entry->inode, __entry->first, __entry->last,
		  __entry->pages, __entry->cause)
);

TRACE_EVENT(dd_attach,
	TP_PROTO(int error, u64 latency),
	TP_ARGS(error, latency),
	TP_STRUCT__entry(
		__field(u64, latency_ns)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->latency_ns = latency;
		__entry->error = error;
	),
	TP_printk("error=%d latency_ns=%llu", __entry->error, __entry->latency_ns)
);

TRACE_EVENT(dd_detach,
	TP_PROTO(u64 latency),
	TP_ARGS(latency),
	TP_STRUCT__entry(
		__field(u64, latency_ns)
	),
	TP_fast_assign(
		__entry->latency_ns = latency;
	),
	TP_printk("latency_ns=%llu", __entry->latency_ns)
);

TRACE_EVENT(dd_session_begin,
	TP_PROTO(u32 vm, u32 pools),
	TP_ARGS(vm, pools),
	TP_STRUCT__entry(
		__field(u32, vm)
		__field(u32, pools)
	),
	TP_fast_assign(
		__entry->vm = vm;
		__entry->pools = pools;
	),
	TP_printk("vm=%u pools=%u", __entry->vm, __entry->pools)
);

TRACE_EVENT(dd_session_end,
	TP_PROTO(u32 vm, const char *reason),
	TP_ARGS(vm, reason),
	TP_STRUCT__entry(
		__field(u32, vm)
		__array(char, reason, 8)
	),
	TP_fast_assign(
		__entry->vm = vm;
		strscpy(__entry->reason, reason, sizeof(__entry->reason));
	),
	TP_printk("vm=%u reason=%s", __entry->vm, __entry->reason)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE tracepoints
#include <trace/define_trace.h>
