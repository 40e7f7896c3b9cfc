/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Attaching to functions of the kernel with ftrace. One C file of each module
 * includes this together with hook.c; Rust does not see it.
 *
 * A hook is called at each call of one function. It may divert the call with
 * dd_hook_divert(): the replacement then runs instead of the function, with the
 * same arguments, outside of ftrace's context, and may sleep if the function
 * may.
 *
 * A replacement that calls the original function must do so from this module
 * and with its own stack frame (no tail call), and the hook must not divert
 * that call, which it recognises with dd_hook_from_us().
 *
 * Hooks are attached in sets, because detaching a set takes no longer than
 * detaching one function: a second or more, in which ftrace waits for all
 * tasks.
 */
#ifndef DD_SHIM_HOOK_H
#define DD_SHIM_HOOK_H

#include <linux/ftrace.h>

struct dd_hook {
	const char *symbol;
	void (*call)(struct ftrace_regs *fregs, unsigned long parent_ip);
	/* Private: the address at which ftrace calls, 0 while not attached. */
	unsigned long ip;
};

struct dd_hook_set {
	struct dd_hook *hooks;
	unsigned int count;
	bool diverts;
	/* Private. */
	struct ftrace_ops ops;
	bool registered;
};

/* Reason for which a set could not be attached. */
struct dd_hook_failure {
	const char *symbol;	/* the function */
	const char *why;	/* the reason, in words for an administrator */
};

/*
 * Attaches all hooks of a set, or none. Returns 0, or -errno and the failure:
 * -ENOENT if the kernel has no such function (yet), -EINVAL if ftrace cannot
 * attach to it, -EBUSY if another user (a livepatch) diverts it already or
 * ftrace is switched off. The caller serialises all calls for a set.
 */
int dd_hook_attach(struct dd_hook_set *set, struct dd_hook_failure *failure);

/*
 * Detaches all hooks of a set and waits until none of them runs. Diverted calls
 * may still be under way; the caller has to count them.
 */
void dd_hook_detach(struct dd_hook_set *set);

static __always_inline bool dd_hook_from_us(unsigned long parent_ip)
{
	return within_module(parent_ip, THIS_MODULE);
}

static __always_inline void dd_hook_divert(struct ftrace_regs *fregs, void *replacement)
{
	ftrace_regs_set_instruction_pointer(fregs, (unsigned long)replacement);
}

#define DD_ARG(fregs, n) ((void *)ftrace_regs_get_argument(fregs, n))

#endif
