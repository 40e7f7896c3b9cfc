// SPDX-License-Identifier: GPL-2.0
/* See hook.h. Compiled into each module by #include. */

#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include "hook.h"
#include "mutation.h"

static void notrace dd_hook_called(unsigned long ip, unsigned long parent_ip,
				   struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	struct dd_hook_set *set = container_of(ops, struct dd_hook_set, ops);
	struct dd_hook *hook;

	for (hook = set->hooks; hook < set->hooks + set->count; hook++) {
		if (READ_ONCE(hook->ip) == ip) {
			hook->call(fregs, parent_ip);
			return;
		}
	}
}

/*
 * Where ftrace would call us from. A kprobe that is never armed looks the symbol
 * up, and steps over what comes before the call (endbr).
 */
static int dd_hook_find(const char *symbol, unsigned long *ip)
{
	struct kprobe probe = {
		.symbol_name = symbol,
		.flags = KPROBE_FLAG_DISABLED,
	};
	int err = register_kprobe(&probe);

	if (err)
		return err;
	*ip = (unsigned long)probe.addr;
	unregister_kprobe(&probe);
	return 0;
}

int dd_hook_attach(struct dd_hook_set *set, struct dd_hook *hook)
{
	unsigned long ip;
	int err;

	err = dd_hook_find(hook->symbol, &ip);
	if (err)
		return err;

	/* Calls may come before the filter is back. */
	WRITE_ONCE(hook->ip, ip);
	if (!set->registered) {
		memset(&set->ops, 0, sizeof(set->ops));
		set->ops.func = dd_hook_called;
		/*
		 * PERMANENT: nobody may switch ftrace off under us, for a missed
		 * call can be a missed invalidation.
		 */
		set->ops.flags = FTRACE_OPS_FL_PERMANENT;
		if (set->diverts)
			set->ops.flags |= FTRACE_OPS_FL_IPMODIFY;
	}
	err = ftrace_set_filter_ip(&set->ops, ip, 0, 0);
	if (!err && !set->registered) {
		/* Never without a filter: that would be all functions. */
		err = register_ftrace_function(&set->ops);
		if (err)
			ftrace_free_filter(&set->ops);
		else
			set->registered = true;
	}
	if (err)
		WRITE_ONCE(hook->ip, 0);
	return err;
}

void dd_hook_forget(struct dd_hook_set *set, struct dd_hook *hook)
{
	if (!hook->ip)
		return;
	ftrace_set_filter_ip(&set->ops, hook->ip, 1, 0);
	WRITE_ONCE(hook->ip, 0);
}

/*
 * ftrace has switched itself off for good after a mistake of its own, and functions
 * go on calling into this module: it must not go away.
 */
static void dd_hook_stuck(int err)
{
	pr_crit("%s: cannot detach from the kernel (%d), see ftrace's own message: the module stays until the machine is restarted\n",
		KBUILD_MODNAME, err);
	for (;;)
		schedule_timeout_idle(MAX_SCHEDULE_TIMEOUT);
}

void dd_hook_detach(struct dd_hook_set *set)
{
	unsigned int i;
	int err;

	if (!set->registered)
		return;
	/* Waits for RCU-tasks and its variants: the ops are dynamic. */
	err = unregister_ftrace_function(&set->ops);
	if (dd_mutated("detach-fails"))
		err = -ENODEV;
	if (err && !dd_mutated("detach-ignored"))
		dd_hook_stuck(err);
	ftrace_free_filter(&set->ops);
	set->registered = false;
	for (i = 0; i < set->count; i++)
		set->hooks[i].ip = 0;
}
