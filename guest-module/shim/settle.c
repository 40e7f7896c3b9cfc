// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waiting for changes of files that began before the hooks were attached,
 * because the hooks do not observe these completely. An operation that removes
 * pages from the page cache to change the underlying blocks holds the mapping's
 * invalidate_lock until both are done, and pages that were read after the hooks
 * were attached were read under that lock. So once the lock of each inode with
 * pages has been free, all changes are observed.
 */

#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include "guest.h"

/* Seconds to wait for changes. If a change takes longer, the next attempt waits for it again. */
#define DD_SETTLE_S 60

static bool dd_stopped;

struct dd_settling {
	unsigned long until;
	int err;
};

static bool dd_is_settled(struct address_space *mapping)
{
	if (mapping_empty(mapping))
		return true;
	if (!filemap_invalidate_trylock_shared(mapping))
		return false;
	filemap_invalidate_unlock_shared(mapping);
	return true;
}

/*
 * Waits until the inode's invalidate_lock has been free. The lock is only
 * tried, because a holder that waits for a dead disk would otherwise block the
 * worker for ever.
 */
static void dd_settle_inode(struct inode *inode, struct dd_settling *settling)
{
	while (!dd_is_settled(inode->i_mapping)) {
		if (READ_ONCE(dd_stopped))
			settling->err = -EINTR;
		else if (time_after(jiffies, settling->until))
			settling->err = -EBUSY;
		if (settling->err)
			return;
		msleep(10);
	}
	cond_resched();
}

/*
 * Waits for all inodes of a superblock. Inodes that are created during the walk
 * enter the list at its front, which the walk has passed; their pages are newer
 * than the hooks.
 */
static void dd_settle_superblock(struct super_block *sb, void *data)
{
	struct dd_settling *settling = data;
	struct inode *inode, *before = NULL;

	spin_lock(&sb->s_inode_list_lock);
	list_for_each_entry(inode, &sb->s_inodes, i_sb_list) {
		if (settling->err)
			break;
		spin_lock(&inode->i_lock);
		/* Inodes that are being freed or created have no pages that could be put. */
		if ((inode_state_read(inode) & (I_FREEING | I_WILL_FREE | I_NEW)) ||
		    (dd_is_settled(inode->i_mapping) && !need_resched())) {
			spin_unlock(&inode->i_lock);
			continue;
		}
		__iget(inode);
		spin_unlock(&inode->i_lock);
		spin_unlock(&sb->s_inode_list_lock);

		dd_settle_inode(inode, settling);
		iput(before);
		before = inode;

		spin_lock(&sb->s_inode_list_lock);
	}
	spin_unlock(&sb->s_inode_list_lock);
	iput(before);
}

/*
 * Waits until all changes of files have ended that began before the hooks were
 * attached. Returns 0, -EBUSY if one takes too long, or -EINTR after
 * dd_settle_stop(). Sleeps.
 */
int dd_settle(void)
{
	struct dd_settling settling = { .until = jiffies + DD_SETTLE_S * HZ };
	const char *name;
	unsigned int i;

	/* Files of a filesystem without hooks are not cached. */
	for (i = 0; i < DD_FILESYSTEMS; i++) {
		struct file_system_type *type;

		name = dd_hooks_filesystem(i);
		type = name ? get_fs_type(name) : NULL;
		if (!type)
			continue;
		iterate_supers_type(type, dd_settle_superblock, &settling);
		module_put(type->owner);
	}
	return settling.err;
}

/* Makes dd_settle() return, because the module is being unloaded. */
void dd_settle_stop(void)
{
	WRITE_ONCE(dd_stopped, true);
}
