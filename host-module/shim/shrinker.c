// SPDX-License-Identifier: GPL-2.0-only
/* <linux/shrinker.h>: memory reclaim takes pages from the cache. */

#include <linux/nodemask.h>
#include <linux/sched/mm.h>
#include <linux/shrinker.h>
#include "host.h"

/*
 * Number of objects to scan in a call. Each call looks at every VM, for which the
 * kernel's default of 128 objects is too few.
 */
#define DD_SHRINKER_BATCH 1024

static struct shrinker *dd_shrinker;

static unsigned long dd_shrinker_count(struct shrinker *shrinker, struct shrink_control *control)
{
	return dd_host_shrinkable(control->nid) ?: SHRINK_EMPTY;
}

static unsigned long dd_shrinker_scan(struct shrinker *shrinker, struct shrink_control *control)
{
	/* On a host with one node, the nodes of pages are not noted. */
	int nid = nr_online_nodes > 1 ? control->nid : NUMA_NO_NODE;
	unsigned long freed = dd_host_shrink(control->nr_to_scan, nid);

	control->nr_scanned = freed;
	return freed ?: SHRINK_STOP;
}

int dd_shrinker_register(void)
{
	dd_shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE, "doubledecker");
	if (!dd_shrinker)
		return -ENOMEM;
	dd_shrinker->count_objects = dd_shrinker_count;
	dd_shrinker->scan_objects = dd_shrinker_scan;
	dd_shrinker->batch = DD_SHRINKER_BATCH;
	shrinker_register(dd_shrinker);
	return 0;
}

void dd_shrinker_unregister(void)
{
	shrinker_free(dd_shrinker);
}

/* Lockdep treats what is done between these two calls as done in reclaim. */
void dd_reclaim_enter(void)
{
	fs_reclaim_acquire(GFP_KERNEL);
}

void dd_reclaim_leave(void)
{
	fs_reclaim_release(GFP_KERNEL);
}
