// SPDX-License-Identifier: GPL-2.0-only
/* <linux/gfp.h>: pages of the host that hold what guests put. */

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/vmstat.h>
#include <linux/xxhash.h>
#include "host.h"

/*
 * No reclaim of any kind: caching a page does not justify the eviction of other
 * memory, neither while a guest waits nor in the background. The shrinker frees
 * the pages, so that they belong into the blocks of reclaimable pages. Among
 * unmovable pages they would keep the kernel from forming huge pages.
 */
#define DD_GFP ((GFP_HIGHUSER & ~__GFP_RECLAIM) | __GFP_RECLAIMABLE | \
		__GFP_NOWARN | __GFP_NORETRY | __GFP_NOMEMALLOC)

/*
 * Number of pages of each node, by processor. A page can be counted down on
 * another processor than up, so that only the sums are meaningful.
 */
static long __percpu *dd_node_pages;

int dd_pages_init(void)
{
	dd_node_pages = __alloc_percpu(array_size(nr_node_ids, sizeof(long)), sizeof(long));
	return dd_node_pages ? 0 : -ENOMEM;
}

/*
 * Called when no page is left. A task that was preempted at the end of an
 * abandoned read may still have to return from a function of the module.
 */
void dd_pages_exit(void)
{
	synchronize_rcu_tasks();
	free_percpu(dd_node_pages);
}

/* Returns the number of pages of a node. */
u64 dd_pages_on(int nid)
{
	long pages = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		pages += READ_ONCE(per_cpu_ptr(dd_node_pages, cpu)[nid]);
	return max(pages, 0L);
}

/* Returns the node of a page, or -1 on hosts with one node. */
int dd_page_node(u64 frame)
{
	return nr_online_nodes > 1 ? page_to_nid(pfn_to_page(frame)) : -1;
}

/* Accounts a page as reclaimable: KReclaimable and MemAvailable of /proc/meminfo include it. */
static void dd_page_account(struct page *page, long sign)
{
	this_cpu_add(dd_node_pages[page_to_nid(page)], sign);
	mod_node_page_state(page_pgdat(page), NR_KERNEL_MISC_RECLAIMABLE, sign);
}

/*
 * Returns the number of free pages of a node above the high watermark. kswapd
 * frees pages up to that mark; it is not woken if only these pages are taken.
 */
static u64 dd_node_spare(int nid)
{
	enum zone_type last = gfp_zone(DD_GFP), i;
	u64 spare = 0;

	for (i = 0; i <= last; i++) {
		struct zone *zone = &NODE_DATA(nid)->node_zones[i];
		long free;

		if (!managed_zone(zone))
			continue;
		free = zone_page_state(zone, NR_FREE_PAGES);
		free -= zone_page_state(zone, NR_FREE_CMA_PAGES);
		/* These are reserved for urgent allocations. */
		free -= READ_ONCE(zone->nr_free_highatomic);
		free -= high_wmark_pages(zone) + zone->lowmem_reserve[last];
		if (free > 0)
			spare += free;
	}
	return spare;
}

/* Returns the number of free pages of all nodes that may be taken. */
u64 dd_pages_spare(void)
{
	u64 spare = 0;
	int nid;

	for_each_online_node(nid)
		spare += dd_node_spare(nid);
	return spare;
}

/*
 * Allocates pages from a node as long as it can spare them. Returns how many of
 * @pages are allocated then, including the first @got.
 */
static size_t dd_node_alloc(int nid, struct page **pages, size_t got, size_t count)
{
	while (got < count) {
		size_t some = min_t(u64, count - got, dd_node_spare(nid));
		size_t now;

		if (!some)
			break;
		now = alloc_pages_bulk_node(DD_GFP | __GFP_THISNODE, nid, got + some, pages);

		/* Some kernels allocate one page at a time. */
		if (now <= got)
			break;
		got = now;
	}
	return got;
}

/*
 * Allocates as any caller that must not sleep: from the pages that the kernel
 * keeps free, and wakes kswapd, which frees as many again.
 */
static size_t dd_floor_alloc(struct page **pages, size_t got, size_t count)
{
	gfp_t gfp = DD_GFP | __GFP_KSWAPD_RECLAIM;

	for (; got < count; got++) {
		pages[got] = alloc_page(gfp);
		if (!pages[got])
			break;
	}
	return got;
}

/*
 * Allocates pages, fills in their frame numbers and returns how many it got.
 * @frames must be all zero, as alloc_pages_bulk() requires. The caller sets
 * @below_floor if the administrator has guaranteed these pages to the memory
 * tier even while the host is short of memory.
 */
size_t dd_pages_alloc(u64 *frames, size_t count, bool below_floor)
{
	struct page **pages = (struct page **)frames;
	int near = numa_mem_id(), nid;
	size_t got, i;

	BUILD_BUG_ON(sizeof(*pages) != sizeof(*frames));
	got = dd_node_alloc(near, pages, 0, count);
	/* Without this condition, each call would search the mask of nodes. */
	if (got < count) {
		for_each_online_node(nid)
			if (nid != near)
				got = dd_node_alloc(nid, pages, got, count);
	}
	if (below_floor)
		got = dd_floor_alloc(pages, got, count);
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

/* Adds an owner to a page. Each owner calls dd_page_free(); the last call frees the page. */
void dd_page_share(u64 frame)
{
	struct page *page = pfn_to_page(frame);

	get_page(page);
	dd_page_account(page, 1);
}

/* Returns whether the page has several owners. */
bool dd_page_shared(u64 frame)
{
	return page_ref_count(pfn_to_page(frame)) > 1;
}

void *dd_page_address(u64 frame)
{
	return page_address(pfn_to_page(frame));
}

/* Returns a checksum of a page. */
u64 dd_page_checksum(u64 frame, u64 seed)
{
	return xxh64(page_address(pfn_to_page(frame)), PAGE_SIZE, seed);
}

u64 dd_pages_total(void)
{
	return totalram_pages();
}
