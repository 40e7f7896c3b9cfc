// SPDX-License-Identifier: GPL-2.0
/*
 * Where we attach to the kernel. Functions whose exit matters are diverted and
 * called again by their exported names: a direct call needs no endbr there, so
 * this is safe with IBT, which seals functions that nobody calls indirectly.
 */

#include <linux/delay.h>
#include <linux/folio_batch.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/pagemap.h>
#include <linux/rcupdate.h>
#include "guest.h"
#include "../../shim/hook.c"

/* Diverted calls on their way. */
static atomic_t dd_busy = ATOMIC_INIT(0);

#define DD_CALLBACK(name) \
	static void name(unsigned long ip, unsigned long parent_ip, \
			 struct ftrace_ops *op, struct ftrace_regs *fregs)
#define DD_ARG(n) ((void *)ftrace_regs_get_argument(fregs, n))

/* void __filemap_remove_folio(struct folio *, void *shadow) */
DD_CALLBACK(dd_remove_one)
{
	/* Only shrink_folio_list() leaves a shadow: see docs/decisions/0002. */
	dd_on_folio_removed(DD_ARG(0), DD_ARG(1) != NULL);
}

/* void delete_from_page_cache_batch(mapping, struct folio_batch *) */
DD_CALLBACK(dd_remove_batch)
{
	struct address_space *mapping = DD_ARG(0);
	struct folio_batch *batch = DD_ARG(1);
	int i;

	for (i = 0; i < folio_batch_count(batch); i++) {
		struct folio *folio = batch->folios[i];

		dd_on_content_change(mapping, folio->index, folio_next_index(folio) - 1);
	}
}

/* void free_unref_folios(struct folio_batch *) */
DD_CALLBACK(dd_free_batch)
{
	dd_on_folios_freed(DD_ARG(0));
}

/* void kiocb_invalidate_post_direct_write(struct kiocb *, size_t count) */
DD_CALLBACK(dd_direct_written)
{
	struct kiocb *iocb = DD_ARG(0);
	size_t count = (size_t)DD_ARG(1);

	/* No exit is needed: i_dio_count keeps pages from being put until the end. */
	if (count)
		dd_on_content_change(iocb->ki_filp->f_mapping, iocb->ki_pos >> PAGE_SHIFT,
				     (iocb->ki_pos + count - 1) >> PAGE_SHIFT);
}

/*
 * The inode of a linked file leaves the inode cache: pages that are not in the
 * page cache stay valid (invariant 6); those that are leave through
 * delete_from_page_cache_batch().
 */
static bool dd_only_evicted(struct address_space *mapping)
{
	return mapping_exiting(mapping) && mapping->host->i_nlink;
}

static void dd_truncate(struct address_space *mapping, loff_t lstart, uoff_t lend)
{
	u64 first = (u64)lstart >> PAGE_SHIFT;
	u64 last = lend == -1 ? U64_MAX : lend >> PAGE_SHIFT;
	bool changes = !dd_only_evicted(mapping);

	atomic_inc(&dd_busy);
	if (changes)
		dd_on_content_change(mapping, first, last);
	truncate_inode_pages_range(mapping, lstart, lend);
	if (changes)
		dd_on_content_change(mapping, first, last);
	atomic_dec(&dd_busy);
}

static int dd_invalidate(struct address_space *mapping, pgoff_t start, pgoff_t end)
{
	int ret;

	atomic_inc(&dd_busy);
	dd_on_content_change(mapping, start, end);
	ret = invalidate_inode_pages2_range(mapping, start, end);
	dd_on_content_change(mapping, start, end);
	atomic_dec(&dd_busy);
	return ret;
}

static void dd_shutdown(struct super_block *sb)
{
	atomic_inc(&dd_busy);
	dd_on_shutdown(sb, false);
	generic_shutdown_super(sb);
	dd_on_shutdown(sb, true);
	atomic_dec(&dd_busy);
}

static void dd_readahead(struct readahead_control *rac)
{
	atomic_inc(&dd_busy);
	dd_on_readahead(rac);
	atomic_dec(&dd_busy);
}

static int dd_read_folio(struct file *file, struct folio *folio)
{
	int ret;

	atomic_inc(&dd_busy);
	ret = dd_on_read_folio(file, folio);
	atomic_dec(&dd_busy);
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

/* Everything that changes content or empties the cache: all of it or nothing. */
static struct dd_hook dd_hooks[] = {
	{ .symbol = "truncate_inode_pages_range", .callback = dd_divert_truncate, .diverts = true },
	{ .symbol = "invalidate_inode_pages2_range", .callback = dd_divert_invalidate,
	  .diverts = true },
	{ .symbol = "generic_shutdown_super", .callback = dd_divert_shutdown, .diverts = true },
	{ .symbol = "kiocb_invalidate_post_direct_write", .callback = dd_direct_written },
	{ .symbol = "delete_from_page_cache_batch", .callback = dd_remove_batch },
	{ .symbol = "free_unref_folios", .callback = dd_free_batch },
	{ .symbol = "__filemap_remove_folio", .callback = dd_remove_one },
};

/* Reads of each filesystem; one that is not loaded has no functions yet. */
static struct {
	const char *filesystem;
	struct dd_hook readahead;
	struct dd_hook read_folio;
} dd_reads[] = {
	{ "ext4",
	  { .symbol = "ext4_readahead", .callback = dd_divert_readahead, .diverts = true },
	  { .symbol = "ext4_read_folio", .callback = dd_divert_read_folio, .diverts = true } },
	{ "xfs",
	  { .symbol = "xfs_vm_readahead", .callback = dd_divert_readahead, .diverts = true },
	  { .symbol = "xfs_vm_read_folio", .callback = dd_divert_read_folio, .diverts = true } },
};

static int dd_reads_attach(int i)
{
	int err;

	if (dd_reads[i].readahead.installed)
		return 0;
	err = dd_hook_install(&dd_reads[i].readahead);
	if (err)
		return err;
	err = dd_hook_install(&dd_reads[i].read_folio);
	if (err)
		dd_hook_remove(&dd_reads[i].readahead);
	return err;
}

static void dd_reads_detach(int i)
{
	dd_hook_remove(&dd_reads[i].read_folio);
	dd_hook_remove(&dd_reads[i].readahead);
}

/* Serialises attaching and detaching with modules that come and go. */
static DEFINE_MUTEX(dd_hooks_lock);
static bool dd_attached;

static int dd_module_event(struct notifier_block *block, unsigned long event, void *data)
{
	const struct module *module = data;
	int i;

	if (event != MODULE_STATE_LIVE && event != MODULE_STATE_GOING)
		return NOTIFY_DONE;
	mutex_lock(&dd_hooks_lock);
	for (i = 0; dd_attached && i < ARRAY_SIZE(dd_reads); i++) {
		if (strcmp(module->name, dd_reads[i].filesystem))
			continue;
		if (event == MODULE_STATE_GOING)
			dd_reads_detach(i);
		else if (dd_reads_attach(i))
			pr_warn("doubledecker_guest: cannot attach to %s: its files are not cached\n",
				module->name);
	}
	mutex_unlock(&dd_hooks_lock);
	return NOTIFY_DONE;
}

static struct notifier_block dd_module_notifier = { .notifier_call = dd_module_event };

static void dd_hooks_detach(void)
{
	int i;

	dd_attached = false;
	for (i = ARRAY_SIZE(dd_reads) - 1; i >= 0; i--)
		dd_reads_detach(i);
	for (i = ARRAY_SIZE(dd_hooks) - 1; i >= 0; i--)
		dd_hook_remove(&dd_hooks[i]);
}

int dd_hooks_install(const char **failed)
{
	int i, err = 0;

	mutex_lock(&dd_hooks_lock);
	for (i = 0; !err && i < ARRAY_SIZE(dd_hooks); i++) {
		err = dd_hook_install(&dd_hooks[i]);
		if (err)
			*failed = dd_hooks[i].symbol;
	}
	if (err) {
		dd_hooks_detach();
	} else {
		dd_attached = true;
		/* A filesystem that is not loaded has no functions yet. */
		for (i = 0; i < ARRAY_SIZE(dd_reads); i++)
			dd_reads_attach(i);
	}
	mutex_unlock(&dd_hooks_lock);
	if (!err)
		err = register_module_notifier(&dd_module_notifier);
	return err;
}

void dd_hooks_remove(void)
{
	unregister_module_notifier(&dd_module_notifier);
	mutex_lock(&dd_hooks_lock);
	dd_hooks_detach();
	mutex_unlock(&dd_hooks_lock);

	/*
	 * Diverted calls: first those that were on their way into a replacement
	 * when the hooks went, then those inside, then their last instructions.
	 */
	synchronize_rcu_tasks();
	while (atomic_read(&dd_busy))
		msleep(1);
	synchronize_rcu_tasks();
}
