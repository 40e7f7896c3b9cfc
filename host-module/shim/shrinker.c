// SPDX-License-Identifier: GPL-2.0
/* <linux/shrinker.h>: memory reclaim asks the cache for pages. */

#include <linux/shrinker.h>
#include "host.h"

static struct shrinker *dd_shrinker;

static unsigned long dd_shrinker_count(struct shrinker *shrinker, struct shrink_control *control)
{
	return dd_host_shrinkable() ?: SHRINK_EMPTY;
}

static unsigned long dd_shrinker_scan(struct shrinker *shrinker, struct shrink_control *control)
{
	unsigned long freed = dd_host_shrink(control->nr_to_scan);

	control->nr_scanned = freed;
	return freed ?: SHRINK_STOP;
}

int dd_shrinker_register(void)
{
	dd_shrinker = shrinker_alloc(0, "doubledecker");
	if (!dd_shrinker)
		return -ENOMEM;
	dd_shrinker->count_objects = dd_shrinker_count;
	dd_shrinker->scan_objects = dd_shrinker_scan;
	shrinker_register(dd_shrinker);
	return 0;
}

void dd_shrinker_unregister(void)
{
	shrinker_free(dd_shrinker);
}
