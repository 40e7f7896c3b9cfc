/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints of both modules, as Rust calls them. The file shim/tracepoints.c of
 * each module includes this behind its events, and names each of them once more.
 *
 * The kernel's macro declare_trace!, by which Rust passes a tracepoint, knows
 * those of the kernel alone. So two functions stand for each event: one tells
 * whether it is on, which is a jump that the kernel patches into a no-operation
 * while it is off, and the other passes it.
 *
 * Unloading. An event is passed by code of the module alone, and all such code
 * has ended when the module's exit function returns (see hook.h, and drop() of
 * either module), so that no probe of an event runs any more. Only then does the
 * module loader tell the tracing core that the module goes. That removes the
 * events with the probes that users of tracefs attached to them, and empties the
 * buffers that have records of them, because their formats are in the module.
 * perf and BPF programs hold a reference to the module instead, so that it cannot
 * be unloaded before they detach. Hence no probe outlives the module's text, and
 * nothing has to be waited for here.
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
