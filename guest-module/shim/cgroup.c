// SPDX-License-Identifier: GPL-2.0-only
/* Cgroups: those to which a folio is charged, and lookup of a cgroup by its path. */

#include <linux/cgroup.h>
#include <linux/memcontrol.h>
#include "guest.h"

/*
 * Writes the ids of the folio's cgroup and of its ancestors without the root,
 * nearest first, and returns their number. The caller ensures that the folio is
 * charged and not uncharged during the call.
 */
u32 dd_folio_cgroups(struct folio *folio, u64 *ids, u32 max)
{
	struct mem_cgroup *memcg;
	u32 count = 0;

	rcu_read_lock();
	memcg = folio_memcg(folio);
	if (memcg) {
		struct cgroup *cgroup = memcg->css.cgroup;
		int level;

		for (level = cgroup->level; level > 0 && count < max; level--)
			ids[count++] = cgroup_id(cgroup->ancestors[level]);
	}
	rcu_read_unlock();
	return count;
}

struct cgroup *dd_cgroup_open(const char *path, int *err)
{
	struct cgroup *cgroup = cgroup_get_from_path(path);

	*err = PTR_ERR_OR_ZERO(cgroup);
	return *err ? NULL : cgroup;
}

void dd_cgroup_close(struct cgroup *cgroup)
{
	cgroup_put(cgroup);
}

u64 dd_cgroup_id(const struct cgroup *cgroup)
{
	return cgroup_id(cgroup);
}

bool dd_cgroup_dead(const struct cgroup *cgroup)
{
	return cgroup_is_dead(cgroup);
}

int dd_cgroup_path(struct cgroup *cgroup, char *path, size_t len)
{
	return cgroup_path(cgroup, path, len);
}
