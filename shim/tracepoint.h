/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions by which Rust passes the tracepoints of both modules. The file
 * shim/tracepoints.c of each module includes this after its events, and uses
 * DD_TRACEPOINT for each event.
 *
 * The macro declare_trace! of the kernel's Rust API supports only tracepoints
 * of the kernel itself. Instead there are two functions for each event: one
 * returns whether it is on, which is a jump that the kernel patches to a no-op
 * while the event is off, and the other one passes the event.
 *
 * Unloading: an event is passed only by code of the module, and all such code
 * has ended when the module's exit function returns (see hook.h, and drop() of
 * either module), so that no probe of an event is running. Only then does the
 * module loader notify the tracing core. The tracing core removes the events
 * together with the probes that users of tracefs attached to them, and empties
 * the buffers that have records of them, because their formats are in the
 * module. perf and BPF programs hold a reference to the module, so that it
 * cannot be unloaded before they detach. Hence no probe outlives the module's
 * text, and this code does not have to wait for anything.
 */
#ifndef DD_SHIM_TRACEPOINT_H
#define DD_SHIM_TRACEPOINT_H

#define DD_TRACEPOINT(name, proto, args)	\
	bool dd_trace_##name##_on(void);	\
	bool dd_trace_##name##_on(void)		\
	{					\
		return trace_dd_##name##_enabled();	\
	}					\
	void dd_trace_##name(proto);		\
	void dd_trace_##name(proto)		\
	{					\
		trace_dd_##name(args);		\
	}

#endif
