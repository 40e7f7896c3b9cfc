// SPDX-License-Identifier: GPL-2.0-only
/* <linux/oom.h>: the kernel has found no memory and is about to invoke the OOM killer. */

#include <linux/notifier.h>
#include <linux/oom.h>
#include "host.h"

static int dd_oom_notify(struct notifier_block *block, unsigned long unused, void *freed)
{
	*(unsigned long *)freed += dd_host_rescue();
	return NOTIFY_OK;
}

static struct notifier_block dd_oom_block = {
	.notifier_call = dd_oom_notify,
};

int dd_oom_register(void)
{
	return register_oom_notifier(&dd_oom_block);
}

void dd_oom_unregister(void)
{
	unregister_oom_notifier(&dd_oom_block);
}
