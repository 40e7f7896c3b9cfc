// SPDX-License-Identifier: GPL-2.0
/* <linux/gfp.h>: the pages that hold what guests put. */

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/vmstat.h>
#include "host.h"

/*
 * Without direct reclaim: a page of the cache is not worth evicting something
 * else for while a guest waits. kswapd is woken; under pressure puts fail.
 */
#define DD_GFP ((GFP_HIGHUSER & ~__GFP_DIRECT_RECLAIM) | __GFP_NOWARN | \
		__GFP_NORETRY | __GFP_NOMEMALLOC)

/* Counted as memory that can be had back: KReclaimable and MemAvailable of /proc/meminfo. */
static void dd_page_account(struct page *page, long sign)
{
	mod_node_page_state(page_pgdat(page), NR_KERNEL_MISC_RECLAIMABLE, sign);
}

/* Fills in frame numbers; returns how many it got. */
size_t dd_pages_alloc(u64 *frames, size_t count)
{
	struct page **pages = (struct page **)frames;
	size_t got, i;

	BUILD_BUG_ON(sizeof(*pages) != sizeof(*frames));
	memset(frames, 0, count * sizeof(*frames));
	got = alloc_pages_bulk(DD_GFP, count, pages);
	for (; got < count; got++) {
		pages[got] = alloc_page(DD_GFP);
		if (!pages[got])
			break;
	}
	for (i = 0; i < got; i++) {
		dd_page_account(pages[i], 1);
		frames[i] = page_to_pfn(pages[i]);
	}
	return got;
}

void dd_page_free(u64 frame)
{
	struct page *page = pfn_to_page(frame);

	dd_page_account(page, -1);
	__free_page(page);
}

void *dd_page_address(u64 frame)
{
	return page_address(pfn_to_page(frame));
}

u64 dd_pages_total(void)
{
	return totalram_pages();
}
