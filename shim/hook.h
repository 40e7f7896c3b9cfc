/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Attaching to kernel functions with ftrace. Included by one C file of each
 * module, together with hook.c; not visible to Rust.
 *
 * A hook looks at calls of one function. Its callback may also divert the call
 * with dd_hook_divert(): the replacement then runs in place of the function,
 * with the same arguments, outside of ftrace's context, and may sleep if the
 * function may.
 *
 * A diverted call that calls the function again must do so from this module
 * with a real frame (no tail call), and the callback must let it pass:
 * dd_hook_from_us() tells.
 */
#ifndef DD_SHIM_HOOK_H
#define DD_SHIM_HOOK_H

#include <linux/ftrace.h>

struct dd_hook {
	const char *symbol;
	ftrace_func_t callback;
	bool diverts;
	/* Private. */
	struct ftrace_ops ops;
	bool installed;
};

/* Returns 0 or -errno: -EINVAL if the kernel has no such function to attach
 * to, -EBUSY if somebody else (livepatch) diverts it already.
 */
int dd_hook_install(struct dd_hook *hook);

/* Waits until no callback runs. Diverted calls may still be on their way: the
 * caller counts them.
 */
void dd_hook_remove(struct dd_hook *hook);

static __always_inline bool dd_hook_from_us(unsigned long parent_ip)
{
	return within_module(parent_ip, THIS_MODULE);
}

static __always_inline void dd_hook_divert(struct ftrace_regs *fregs, void *replacement)
{
	ftrace_regs_set_instruction_pointer(fregs, (unsigned long)replacement);
}

#endif
