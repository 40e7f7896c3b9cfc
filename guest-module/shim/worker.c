// SPDX-License-Identifier: GPL-2.0-only
/*
 * The background job, and the notifiers of hibernation and reboot. The job is
 * in C because the Rust API of the kernel cannot cancel work yet.
 */

#include <linux/jiffies.h>
#include <linux/reboot.h>
#include <linux/suspend.h>
#include <linux/workqueue.h>
#include "guest.h"

/* Shortest pause between two runs that dd_worker_hurry() requested. */
#define DD_WORKER_PAUSE_MS 20

static void dd_worker_run(struct work_struct *work);
static DECLARE_DELAYED_WORK(dd_worker, dd_worker_run);

/* Time at which the last run ended, in jiffies. */
static unsigned long dd_worker_ended;

static void dd_worker_run(struct work_struct *work)
{
	unsigned int ms = dd_on_worker_run();

	WRITE_ONCE(dd_worker_ended, jiffies);
	if (!ms)
		return;
	/* dd_worker_hurry() was called during the run. The pause begins only now. */
	if (delayed_work_pending(&dd_worker))
		ms = min_t(unsigned int, ms, DD_WORKER_PAUSE_MS);
	mod_delayed_work(system_dfl_wq, &dd_worker, msecs_to_jiffies(ms));
}

/*
 * The hibernation image is written after PREPARE and may be resumed much later,
 * on a host that has other pages. Therefore the image must not have a session.
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

/* The next kernel cannot use the pages at the host, and may not load this module. */
static int dd_reboot(struct notifier_block *block, unsigned long event, void *data)
{
	dd_on_pause(true);
	return NOTIFY_DONE;
}

static struct notifier_block dd_reboot_notifier = { .notifier_call = dd_reboot };

void dd_worker_start(void)
{
	register_pm_notifier(&dd_hibernation_notifier);
	register_reboot_notifier(&dd_reboot_notifier);
	dd_worker_ended = jiffies;
	queue_delayed_work(system_dfl_wq, &dd_worker, 0);
}

/* Runs the job as soon as possible. Any context. */
void dd_worker_kick(void)
{
	mod_delayed_work(system_dfl_wq, &dd_worker, 0);
}

/*
 * Runs the job soon, but at least DD_WORKER_PAUSE_MS after its last run. Any
 * context. That time does not depend on the time of the call, so that frequent
 * calls do not postpone the run.
 */
void dd_worker_hurry(void)
{
	unsigned long next = READ_ONCE(dd_worker_ended) + msecs_to_jiffies(DD_WORKER_PAUSE_MS);
	unsigned long now = jiffies;
	unsigned long left = time_after(next, now) ? next - now : 0;

	mod_delayed_work(system_dfl_wq, &dd_worker, left);
}

void dd_worker_stop(void)
{
	unregister_reboot_notifier(&dd_reboot_notifier);
	unregister_pm_notifier(&dd_hibernation_notifier);
	dd_settle_stop();
	disable_delayed_work_sync(&dd_worker);
}
