// SPDX-License-Identifier: GPL-2.0-only
/*
 * The functions of the kernel that the module hooks
 * (docs/developers/decisions/0003-hooks.md, docs/developers/coherence.md).
 *
 * Functions whose return must be observed are diverted, and the replacement
 * calls them by their exported names. Such a direct call needs no endbr at its
 * target. It therefore also works with IBT, which seals functions that are not
 * called indirectly.
 */

#include <linux/delay.h>
#include <linux/folio_batch.h>
#include <linux/fs.h>
#include <linux/iomap.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/pagemap.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include "guest.h"
#include "../../shim/hook.c"

/*
 * Number of diverted calls under way. Only the sum over all CPUs is meaningful,
 * because a call may end on another CPU.
 */
static DEFINE_PER_CPU(long, dd_busy);

#define DD_CALLBACK(name) \
	static void name(struct ftrace_regs *fregs, unsigned long parent_ip)

static void dd_folio_changes(struct address_space *mapping, struct folio *folio,
			     enum dd_change change)
{
	dd_on_content_change(mapping, folio->index, folio_next_index(folio) - 1, change);
}

/* void __filemap_remove_folio(struct folio *, void *shadow) */
DD_CALLBACK(dd_remove_one)
{
	/* Only shrink_folio_list() leaves a shadow (docs/developers/decisions/0002-deferred-puts.md). */
	dd_on_folio_removed(DD_ARG(fregs, 0), DD_ARG(fregs, 1) != NULL);
}

/* void delete_from_page_cache_batch(mapping, struct folio_batch *) */
DD_CALLBACK(dd_remove_batch)
{
	struct address_space *mapping = DD_ARG(fregs, 0);
	struct folio_batch *batch = DD_ARG(fregs, 1);
	int i;

	for (i = 0; i < folio_batch_count(batch); i++)
		dd_folio_changes(mapping, batch->folios[i], DD_CHANGE_REMOVED);
}

/* void free_unref_folios(struct folio_batch *) */
DD_CALLBACK(dd_free_batch)
{
	dd_on_folios_freed(DD_ARG(fregs, 0));
}

/*
 * int iomap_iter(struct iomap_iter *, const struct iomap_ops *): the first step
 * of a direct write, after i_dio_count was raised and before anything is sent
 * to the disk. No page of the file is put from here on until the write has
 * ended, so that no hook at its end is needed: see
 * docs/developers/decisions/0003-hooks.md. Buffered I/O calls the function as well, and is
 * recognised by its flags.
 */
DD_CALLBACK(dd_direct_write_begins)
{
	const struct iomap_iter *iter = DD_ARG(fregs, 0);
	const unsigned int direct_write = IOMAP_DIRECT | IOMAP_WRITE;

	/* Later steps carry the extent of the step before. */
	if ((iter->flags & direct_write) != direct_write || iter->iomap.length || !iter->len)
		return;
	dd_on_content_change(iter->inode->i_mapping, iter->pos >> PAGE_SHIFT,
			     (iter->pos + iter->len - 1) >> PAGE_SHIFT, DD_CHANGE_WRITTEN);
}

static void dd_blocks_change(struct inode *inode, u32 block, u32 count)
{
	u64 first = (u64)block << inode->i_blkbits;
	u64 end = ((u64)block + count) << inode->i_blkbits;

	if (count)
		dd_on_content_change(inode->i_mapping, first >> PAGE_SHIFT,
				     (end - 1) >> PAGE_SHIFT, DD_CHANGE_SWAPPED);
}

/*
 * int ext4_swap_extents(handle, struct inode *, struct inode *, u32 block1, u32
 * block2, u32 count, ...): two files swap blocks. The folios of both ranges are
 * locked and in the page cache until that is done, so that none is put.
 */
DD_CALLBACK(dd_extents_swapped)
{
	u32 count = (unsigned long)DD_ARG(fregs, 5);

	dd_blocks_change(DD_ARG(fregs, 1), (unsigned long)DD_ARG(fregs, 3), count);
	dd_blocks_change(DD_ARG(fregs, 2), (unsigned long)DD_ARG(fregs, 4), count);
}

/* int iomap_swapfile_activate(struct swap_info_struct *, struct file *, ...) */
DD_CALLBACK(dd_swapped_to)
{
	struct file *file = DD_ARG(fregs, 1);

	/* No hook at the exit is needed: pages of a swap file are not put until swapoff. */
	dd_on_content_change(file->f_mapping, 0, U64_MAX, DD_CHANGE_SWAP_FILE);
}

/*
 * A folio becomes dirty, so that copies of its pages at the host become
 * outdated. This matters for folios that are not up to date: a write of some
 * blocks of a page creates such a folio, which is read like a new one once its
 * blocks are written back and its buffers are freed. It also matters for folios
 * that are up to date, because pages that are present in the map leave without
 * a put while the host's SSD tier keeps what it returns.
 */

/* void __folio_mark_dirty(struct folio *, struct address_space *, int warn) */
DD_CALLBACK(dd_dirtied)
{
	dd_folio_changes(DD_ARG(fregs, 1), DD_ARG(fregs, 0), DD_CHANGE_DIRTIED);
}

/*
 * bool filemap_dirty_folio(struct address_space *, struct folio *), which may
 * call __folio_mark_dirty().
 */
DD_CALLBACK(dd_dirtied_in_cache)
{
	struct folio *folio = DD_ARG(fregs, 1);

	/*
	 * The pages of a dirty folio were cleared from the map when it became
	 * dirty, and have not been put since. Most writes return here.
	 */
	if (!folio_test_dirty(folio))
		dd_folio_changes(DD_ARG(fregs, 0), folio, DD_CHANGE_DIRTIED);
}

/*
 * int ext4_write_inline_data_end(struct inode *, loff_t, unsigned int, unsigned
 * int, struct folio *): data inside an inode were written, and in the first
 * folio of the file, which does not become dirty.
 */
DD_CALLBACK(dd_inline_written)
{
	struct inode *inode = DD_ARG(fregs, 0);

	dd_on_content_change(inode->i_mapping, 0, 0, DD_CHANGE_DIRTIED);
}

/*
 * Returns whether the inode of a linked file is leaving the inode cache. In
 * this case pages that are not in the page cache stay valid (invariant 6), and
 * those in the page cache leave through delete_from_page_cache_batch().
 */
static bool dd_only_evicted(struct address_space *mapping)
{
	/*
	 * Writes to a DAX file bypass the page cache and all hooks. The file
	 * stays DAX until its inode leaves the cache, and none of its pages is
	 * put or read from the host until then. Older copies must be
	 * invalidated now.
	 */
	if (IS_DAX(mapping->host))
		return false;
	return mapping_exiting(mapping) && mapping->host->i_nlink;
}

static void dd_truncate(struct address_space *mapping, loff_t lstart, uoff_t lend)
{
	u64 first = (u64)lstart >> PAGE_SHIFT;
	u64 last = lend == -1 ? U64_MAX : lend >> PAGE_SHIFT;
	bool changes = !dd_only_evicted(mapping);

	this_cpu_inc(dd_busy);
	if (changes)
		dd_on_range_change(mapping, first, last, DD_CHANGE_TRUNCATED);
	truncate_inode_pages_range(mapping, lstart, lend);
	if (changes)
		dd_on_range_change(mapping, first, last, DD_CHANGE_TRUNCATED);
	this_cpu_dec(dd_busy);
}

static int dd_invalidate(struct address_space *mapping, pgoff_t start, pgoff_t end)
{
	int ret;

	this_cpu_inc(dd_busy);
	dd_on_range_change(mapping, start, end, DD_CHANGE_INVALIDATED);
	ret = invalidate_inode_pages2_range(mapping, start, end);
	dd_on_range_change(mapping, start, end, DD_CHANGE_INVALIDATED);
	this_cpu_dec(dd_busy);
	return ret;
}

static void dd_shutdown(struct super_block *sb)
{
	this_cpu_inc(dd_busy);
	dd_on_shutdown(sb, false);
	generic_shutdown_super(sb);
	dd_on_shutdown(sb, true);
	this_cpu_dec(dd_busy);
}

static void dd_readahead(struct readahead_control *rac)
{
	this_cpu_inc(dd_busy);
	dd_on_readahead(rac);
	this_cpu_dec(dd_busy);
}

static int dd_read_folio(struct file *file, struct folio *folio)
{
	int ret;

	this_cpu_inc(dd_busy);
	ret = dd_on_read_folio(file, folio);
	this_cpu_dec(dd_busy);
	return ret;
}

#define DD_DIVERTS(callback, replacement) \
	DD_CALLBACK(callback) \
	{ \
		if (!dd_hook_from_us(parent_ip)) \
			dd_hook_divert(fregs, replacement); \
	}

DD_DIVERTS(dd_divert_truncate, dd_truncate)
DD_DIVERTS(dd_divert_invalidate, dd_invalidate)
DD_DIVERTS(dd_divert_shutdown, dd_shutdown)

#define DD_DIVERTS_READ(callback, replacement) \
	DD_CALLBACK(callback) \
	{ \
		if (!dd_hook_from_us(parent_ip) && dd_on_readahead_wanted()) \
			dd_hook_divert(fregs, replacement); \
	}

DD_DIVERTS_READ(dd_divert_readahead, dd_readahead)
DD_DIVERTS_READ(dd_divert_read_folio, dd_read_folio)

/* Hooks that observe changes. Either all of them are attached or none. */
static struct dd_hook dd_observers[] = {
	{ .symbol = "__filemap_remove_folio", .call = dd_remove_one },
	{ .symbol = "free_unref_folios", .call = dd_free_batch },
	{ .symbol = "delete_from_page_cache_batch", .call = dd_remove_batch },
	{ .symbol = "iomap_iter", .call = dd_direct_write_begins },
	{ .symbol = "iomap_swapfile_activate", .call = dd_swapped_to },
	{ .symbol = "__folio_mark_dirty", .call = dd_dirtied },
	{ .symbol = "filemap_dirty_folio", .call = dd_dirtied_in_cache },
};

static struct dd_hook dd_diversions[] = {
	{ .symbol = "truncate_inode_pages_range", .call = dd_divert_truncate },
	{ .symbol = "invalidate_inode_pages2_range", .call = dd_divert_invalidate },
	{ .symbol = "generic_shutdown_super", .call = dd_divert_shutdown },
};

static struct dd_hook dd_ext4_changes[] = {
	{ .symbol = "ext4_swap_extents", .call = dd_extents_swapped },
	{ .symbol = "ext4_write_inline_data_end", .call = dd_inline_written },
};

static struct dd_hook dd_ext4_reads[] = {
	{ .symbol = "ext4_readahead", .call = dd_divert_readahead },
	{ .symbol = "ext4_read_folio", .call = dd_divert_read_folio },
};

static struct dd_hook dd_xfs_reads[] = {
	{ .symbol = "xfs_vm_readahead", .call = dd_divert_readahead },
	{ .symbol = "xfs_vm_read_folio", .call = dd_divert_read_folio },
};

static struct dd_hook_set dd_observing = {
	.hooks = dd_observers,
	.count = ARRAY_SIZE(dd_observers),
};

static struct dd_hook_set dd_diverting = {
	.hooks = dd_diversions,
	.count = ARRAY_SIZE(dd_diversions),
	.diverts = true,
};

/* The hooks of a filesystem. The functions exist only while the filesystem is loaded. */
static struct dd_filesystem {
	const char *name;
	/* Hooks that observe changes which no generic function makes, if there are any. */
	struct dd_hook_set observing;
	/* Hooks that divert reads. They are attached once all changes are observed. */
	struct dd_hook_set diverting;
	/* Set if another module or a livepatch diverts its functions. */
	bool refused;
} dd_filesystems[DD_FILESYSTEMS] = {
	{
		.name = "ext4",
		.observing = { .hooks = dd_ext4_changes, .count = ARRAY_SIZE(dd_ext4_changes) },
		.diverting = {
			.hooks = dd_ext4_reads,
			.count = ARRAY_SIZE(dd_ext4_reads),
			.diverts = true,
		},
	},
	{
		.name = "xfs",
		.diverting = {
			.hooks = dd_xfs_reads,
			.count = ARRAY_SIZE(dd_xfs_reads),
			.diverts = true,
		},
	},
};

static void dd_filesystem_detach(struct dd_filesystem *fs)
{
	/*
	 * Reads are detached first. In the other order a read could return a
	 * page whose change was not observed.
	 */
	dd_hook_detach(&fs->diverting);
	dd_hook_detach(&fs->observing);
}

static int dd_filesystem_attach(struct dd_filesystem *fs)
{
	struct dd_hook_failure failure;
	int err = 0;

	if (fs->diverting.registered)
		return 0;
	if (fs->observing.count)
		err = dd_hook_attach(&fs->observing, &failure);
	if (!err)
		err = dd_hook_attach(&fs->diverting, &failure);
	if (err)
		dd_filesystem_detach(fs);
	if (err && err != -ENOENT && !fs->refused)
		pr_warn("doubledecker_guest: cannot attach to %s: %s (%d): files of %s are not cached\n",
			failure.symbol, failure.why, err, fs->name);
	if (!err && fs->refused)
		pr_info("doubledecker_guest: files of %s are cached from now on\n", fs->name);
	fs->refused = err && err != -ENOENT;
	return err;
}

/* Serialises attaching and detaching with modules that are loaded and unloaded. */
static DEFINE_MUTEX(dd_hooks_lock);
static bool dd_attached;

static int dd_module_event(struct notifier_block *block, unsigned long event, void *data)
{
	const struct module *module = data;
	struct dd_filesystem *fs;

	if (event != MODULE_STATE_LIVE && event != MODULE_STATE_GOING)
		return NOTIFY_DONE;
	if (event == MODULE_STATE_GOING)
		dd_mapping_unlearn();
	mutex_lock(&dd_hooks_lock);
	for (fs = dd_filesystems; dd_attached && fs < dd_filesystems + DD_FILESYSTEMS; fs++) {
		bool its_own = !strcmp(module->name, fs->name);

		if (its_own && event == MODULE_STATE_GOING) {
			dd_filesystem_detach(fs);
			fs->refused = false;
		} else if (its_own || (fs->refused && event == MODULE_STATE_GOING)) {
			/*
			 * The module that is unloaded may be the one that
			 * diverted the functions.
			 */
			dd_filesystem_attach(fs);
		}
	}
	mutex_unlock(&dd_hooks_lock);
	return NOTIFY_DONE;
}

static struct notifier_block dd_module_notifier = { .notifier_call = dd_module_event };

static void dd_hooks_detach(void)
{
	struct dd_filesystem *fs;

	dd_attached = false;
	for (fs = dd_filesystems; fs < dd_filesystems + DD_FILESYSTEMS; fs++) {
		dd_filesystem_detach(fs);
		fs->refused = false;
	}
	dd_hook_detach(&dd_diverting);
	dd_hook_detach(&dd_observing);
}

int dd_hooks_install(struct dd_hook_failure *failure)
{
	struct dd_filesystem *fs;
	int err;

	mutex_lock(&dd_hooks_lock);
	err = dd_hook_attach(&dd_observing, failure);
	if (!err)
		err = dd_hook_attach(&dd_diverting, failure);
	for (fs = dd_filesystems; !err && fs < dd_filesystems + DD_FILESYSTEMS; fs++) {
		/* Files of a filesystem that cannot be hooked are not cached. */
		if (dd_filesystem_attach(fs) == -ENOMEM) {
			*failure = (struct dd_hook_failure){ fs->name, "out of memory" };
			err = -ENOMEM;
		}
	}
	if (err)
		dd_hooks_detach();
	else
		dd_attached = true;
	mutex_unlock(&dd_hooks_lock);
	if (err)
		return err;
	err = register_module_notifier(&dd_module_notifier);
	if (err) {
		*failure = (struct dd_hook_failure){ "(module notifier)", "the kernel refused it" };
		mutex_lock(&dd_hooks_lock);
		dd_hooks_detach();
		mutex_unlock(&dd_hooks_lock);
	}
	return err;
}

/*
 * Returns the name of filesystem `i`, below DD_FILESYSTEMS, if its reads are
 * diverted, else NULL.
 */
const char *dd_hooks_filesystem(unsigned int i)
{
	return READ_ONCE(dd_filesystems[i].diverting.registered) ? dd_filesystems[i].name : NULL;
}

/*
 * Returns whether a diverted call is under way. Once the hooks are detached, no
 * more calls are counted up, so that a sum of 0 is reliable.
 */
static bool dd_is_busy(void)
{
	long busy = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		busy += READ_ONCE(per_cpu(dd_busy, cpu));
	return busy != 0;
}

void dd_hooks_remove(void)
{
	unregister_module_notifier(&dd_module_notifier);
	mutex_lock(&dd_hooks_lock);
	dd_hooks_detach();
	mutex_unlock(&dd_hooks_lock);

	/*
	 * Waits for diverted calls: first for those that were about to enter a
	 * replacement when the hooks were detached, then for those inside, then
	 * for their last instructions.
	 */
	synchronize_rcu_tasks();
	while (dd_is_busy())
		msleep(1);
	synchronize_rcu_tasks();
	/* From now on the module does not notice when a filesystem is unloaded. */
	dd_mapping_unlearn();
}
