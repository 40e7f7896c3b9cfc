// SPDX-License-Identifier: GPL-2.0-only
/* See hook.h. Each module includes this file. */

#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include "hook.h"

#if !IS_ENABLED(CONFIG_DYNAMIC_FTRACE_WITH_ARGS) || !IS_ENABLED(CONFIG_KPROBES)
/* With the stubs of ftrace.h and kprobes.h the module would fail to load without a reason. */
#error "this kernel lacks CONFIG_DYNAMIC_FTRACE_WITH_ARGS or CONFIG_KPROBES"
#endif

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
 * Finds the address of the ftrace call in a function. Registering a kprobe that
 * is never armed looks up the symbol and skips instructions before the call
 * (endbr).
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

/* Adds the function of a hook to the filter of its set. */
static int dd_hook_filter(struct dd_hook_set *set, struct dd_hook *hook)
{
	unsigned long ip;
	int err = dd_hook_find(hook->symbol, &ip);

	if (err)
		return err;
	/* The hook may be called before the filter function returns. */
	WRITE_ONCE(hook->ip, ip);
	return ftrace_set_filter_ip(&set->ops, ip, 0, 0);
}

/* Resets a set that could not be attached. */
static void dd_hook_clear(struct dd_hook_set *set)
{
	unsigned int i;

	ftrace_free_filter(&set->ops);
	for (i = 0; i < set->count; i++)
		WRITE_ONCE(set->hooks[i].ip, 0);
}

static void dd_hook_init(struct dd_hook_set *set)
{
	memset(&set->ops, 0, sizeof(set->ops));
	set->ops.func = dd_hook_called;
	/*
	 * PERMANENT: ftrace must not be switched off while the module is
	 * loaded, because a missed call can be a missed invalidation.
	 */
	set->ops.flags = FTRACE_OPS_FL_PERMANENT;
	if (set->diverts)
		set->ops.flags |= FTRACE_OPS_FL_IPMODIFY;
}

/*
 * Number of attempts to register. An attempt fails with -EAGAIN while the
 * trampoline of a BPF program is being changed, because it cannot take the hook
 * into account during that time.
 */
enum { DD_HOOK_TRIES = 1000 };

static int dd_hook_register(struct dd_hook_set *set)
{
	int tries = DD_HOOK_TRIES;
	int err;

	do {
		/* This sleeps for a millisecond before it returns -EAGAIN. */
		err = register_ftrace_function(&set->ops);
	} while (err == -EAGAIN && --tries);
	set->registered = !err;
	return err;
}

/*
 * Returns the function of a set that another user diverts. Because ftrace does
 * not report it, the functions are attached one by one until one of them is
 * refused. The hooks have no effect during that time.
 */
static const char *dd_hook_conflict(struct dd_hook_set *set)
{
	struct dd_hook *hook, *found = set->hooks;

	dd_hook_clear(set);
	dd_hook_init(set);
	for (hook = set->hooks; hook < set->hooks + set->count; hook++) {
		unsigned long ip;
		int err = dd_hook_find(hook->symbol, &ip);

		if (!err)
			err = ftrace_set_filter_ip(&set->ops, ip, 0, 0);
		if (!err && !set->registered)
			err = dd_hook_register(set);
		if (err) {
			found = hook;
			break;
		}
	}
	dd_hook_detach(set);
	return found->symbol;
}

/* Returns the cause of an error in words for an administrator. */
static const char *dd_hook_reason(const struct dd_hook_set *set, int err)
{
	switch (err) {
	case -EBUSY:
		/*
		 * For a set that diverts nothing, ftrace_enabled=0 is the only
		 * reason for this error.
		 */
		return set->diverts ? "a livepatch or another module diverts it" :
				      "ftrace is switched off (kernel.ftrace_enabled=0)";
	case -ENODEV:
		return "ftrace has disabled itself after an error: restart the machine";
	case -ENOENT:
		return "this kernel has no such function";
	case -ENOMEM:
		return "out of memory";
	default:
		return "ftrace cannot attach to it";
	}
}

int dd_hook_attach(struct dd_hook_set *set, struct dd_hook_failure *failure)
{
	struct dd_hook *last = set->hooks + set->count - 1;
	struct dd_hook *hook;
	int err = 0;

	dd_hook_init(set);
	for (hook = set->hooks; !err && hook <= last; hook++) {
		failure->symbol = hook->symbol;
		err = dd_hook_filter(set, hook);
		/*
		 * The operations are registered once the filter has all
		 * functions. With an empty filter they would be called for all
		 * functions of the kernel. ftrace notifies trampolines of BPF
		 * programs that calls are diverted when operations are
		 * registered, not when a filter is extended; a trampoline that
		 * was not notified calls the original function itself.
		 */
		if (!err && hook == last)
			err = dd_hook_register(set);
	}
	if (!err)
		return 0;
	if (set->registered)
		dd_hook_detach(set);
	else if (err == -EBUSY && set->diverts)
		failure->symbol = dd_hook_conflict(set);
	else
		dd_hook_clear(set);
	failure->why = dd_hook_reason(set, err);
	return err;
}

/*
 * Blocks for ever. ftrace has disabled itself after an internal error, and
 * functions continue to call into this module, which therefore must not be
 * unloaded.
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
	/*
	 * This waits for grace periods of RCU-tasks and its variants, because
	 * the ops are dynamic.
	 */
	err = unregister_ftrace_function(&set->ops);
	if (err)
		dd_hook_stuck(err);
	ftrace_free_filter(&set->ops);
	set->registered = false;
	for (i = 0; i < set->count; i++)
		set->hooks[i].ip = 0;
}
