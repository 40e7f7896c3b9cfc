// SPDX-License-Identifier: GPL-2.0
/*
 * The module's one background job (the kernel crate cannot cancel work yet),
 * and hibernation.
 */

#include <linux/suspend.h>
#include <linux/workqueue.h>
#include "guest.h"

static void dd_worker_run(struct work_struct *work);
static DECLARE_DELAYED_WORK(dd_worker, dd_worker_run);

static void dd_worker_run(struct work_struct *work)
{
	unsigned int ms = dd_on_tick();

	if (ms)
		queue_delayed_work(system_dfl_wq, &dd_worker, msecs_to_jiffies(ms));
}

/*
 * The image is written after PREPARE and continued by another boot, whose host
 * may hold other pages: nothing may be attached in between.
 */
static int dd_hibernation(struct notifier_block *block, unsigned long event, void *data)
{
	switch (event) {
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		dd_on_pause(true);
		break;
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		dd_on_pause(false);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block dd_hibernation_notifier = { .notifier_call = dd_hibernation };

void dd_worker_start(void)
{
	register_pm_notifier(&dd_hibernation_notifier);
	queue_delayed_work(system_dfl_wq, &dd_worker, 0);
}

/* Any context: runs the job as soon as possible. */
void dd_worker_kick(void)
{
	mod_delayed_work(system_dfl_wq, &dd_worker, 0);
}

void dd_worker_stop(void)
{
	unregister_pm_notifier(&dd_hibernation_notifier);
	dd_settle_stop();
	disable_delayed_work_sync(&dd_worker);
}
