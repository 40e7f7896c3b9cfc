// SPDX-License-Identifier: GPL-2.0-only
/* <linux/workqueue.h>, <linux/sched.h> and <linux/sched/signal.h>: macros. */

#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/workqueue.h>
#include "host.h"

static struct workqueue_struct *dd_queue;

static void dd_evictor(struct work_struct *work)
{
	dd_host_refill();
}

static DECLARE_WORK(dd_evictor_work, dd_evictor);

int dd_queue_create(void)
{
	dd_queue = alloc_workqueue("doubledecker", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return dd_queue ? 0 : -ENOMEM;
}

/* Waits for all work. */
void dd_queue_destroy(void)
{
	destroy_workqueue(dd_queue);
}

/* Waits for the work that is queued now. More work may be queued in the meantime. */
void dd_queue_flush(void)
{
	flush_workqueue(dd_queue);
}

/* Runs the background evictor soon. */
void dd_queue_wake_evictor(void)
{
	queue_work(dd_queue, &dd_evictor_work);
}

struct workqueue_struct *dd_queue_get(void)
{
	return dd_queue;
}

/* Returns whether the current task is being killed. */
bool dd_dying(void)
{
	return fatal_signal_pending(current);
}

/* Called between the steps of a long operation. */
void dd_cond_resched(void)
{
	cond_resched();
}
