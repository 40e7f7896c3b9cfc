// SPDX-License-Identifier: GPL-2.0
/* See hook.h. Compiled into each module by #include. */

#include <linux/module.h>
#include "hook.h"

int dd_hook_install(struct dd_hook *hook)
{
	int err;

	memset(&hook->ops, 0, sizeof(hook->ops));
	hook->ops.func = hook->callback;
	/*
	 * PERMANENT: nobody may switch ftrace off under us, for a missed call
	 * can be a missed invalidation.
	 */
	hook->ops.flags = FTRACE_OPS_FL_PERMANENT;
	if (hook->diverts)
		hook->ops.flags |= FTRACE_OPS_FL_IPMODIFY;

	err = ftrace_set_filter(&hook->ops, (unsigned char *)hook->symbol,
				strlen(hook->symbol), 1);
	if (err)
		goto out;
	err = register_ftrace_function(&hook->ops);
	if (!err) {
		hook->installed = true;
		return 0;
	}
out:
	ftrace_free_filter(&hook->ops);
	return err;
}

void dd_hook_remove(struct dd_hook *hook)
{
	if (!hook->installed)
		return;
	/* Waits for RCU-tasks and its variants: the ops are dynamic. */
	unregister_ftrace_function(&hook->ops);
	ftrace_free_filter(&hook->ops);
	hook->installed = false;
}
