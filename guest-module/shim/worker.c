// SPDX-License-Identifier: GPL-2.0
/* The module's one background job; the kernel crate cannot cancel work yet. */

#include <linux/workqueue.h>
#include "guest.h"

static void dd_worker_run(struct work_struct *work);
static DECLARE_DELAYED_WORK(dd_worker, dd_worker_run);

static void dd_worker_run(struct work_struct *work)
{
	unsigned int ms = dd_on_tick();

	if (ms)
		queue_delayed_work(system_unbound_wq, &dd_worker, msecs_to_jiffies(ms));
}

void dd_worker_start(void)
{
	queue_delayed_work(system_unbound_wq, &dd_worker, 0);
}

/* Any context: runs the job as soon as possible. */
void dd_worker_kick(void)
{
	mod_delayed_work(system_unbound_wq, &dd_worker, 0);
}

void dd_worker_stop(void)
{
	disable_delayed_work_sync(&dd_worker);
}
