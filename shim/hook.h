/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Attaching to kernel functions with ftrace. Included by one C file of each
 * module, together with hook.c; not visible to Rust.
 *
 * A hook looks at calls of one function. It may also divert the call with
 * dd_hook_divert(): the replacement then runs in place of the function, with
 * the same arguments, outside of ftrace's context, and may sleep if the
 * function may.
 *
 * A diverted call that calls the function again must do so from this module
 * with a real frame (no tail call), and the hook must let it pass:
 * dd_hook_from_us() tells.
 *
 * Hooks are attached in sets, each as a whole: to let go of a set takes as long
 * as to let go of one function, a second or more, for ftrace waits for all tasks.
 */
#ifndef DD_SHIM_HOOK_H
#define DD_SHIM_HOOK_H

#include <linux/ftrace.h>

struct dd_hook {
	const char *symbol;
	void (*call)(struct ftrace_regs *fregs, unsigned long parent_ip);
	/* Private: where ftrace finds it, 0 while not attached. */
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

/* Why a set is not attached. */
struct dd_hook_failure {
	const char *symbol;	/* the function */
	const char *why;	/* in words for an administrator */
};

/*
 * Attaches all hooks of a set, or none. Returns 0 or -errno and the failure:
 * -ENOENT if the kernel has no such function (yet), -EINVAL if ftrace cannot
 * attach to it, -EBUSY if another one (a livepatch) diverts it already, or ftrace is
 * switched off. The caller serialises.
 */
int dd_hook_attach(struct dd_hook_set *set, struct dd_hook_failure *failure);

/*
 * Detaches all hooks of a set; waits until none of them runs. Diverted calls may
 * still be on their way: the caller counts them.
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
