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
#include "../../shim/mutation.h"

/* Diverted calls on their way. */
static atomic_t dd_busy = ATOMIC_INIT(0);

#define DD_CALLBACK(name) \
	static void name(struct ftrace_regs *fregs, unsigned long parent_ip)

static void dd_folio_changes(struct address_space *mapping, struct folio *folio)
{
	dd_on_content_change(mapping, folio->index, folio_next_index(folio) - 1);
}

/* void __filemap_remove_folio(struct folio *, void *shadow) */
DD_CALLBACK(dd_remove_one)
{
	if (dd_mutated("put-sleeps"))
		msleep(1);
	/* Only shrink_folio_list() leaves a shadow: see docs/decisions/0002. */
	dd_on_folio_removed(DD_ARG(fregs, 0), DD_ARG(fregs, 1) != NULL);
}

/* void delete_from_page_cache_batch(mapping, struct folio_batch *) */
DD_CALLBACK(dd_remove_batch)
{
	struct address_space *mapping = DD_ARG(fregs, 0);
	struct folio_batch *batch = DD_ARG(fregs, 1);
	int i;

	for (i = 0; i < folio_batch_count(batch); i++)
		dd_folio_changes(mapping, batch->folios[i]);
}

/* void free_unref_folios(struct folio_batch *) */
DD_CALLBACK(dd_free_batch)
{
	dd_on_folios_freed(DD_ARG(fregs, 0));
}

/* void kiocb_invalidate_post_direct_write(struct kiocb *, size_t count) */
DD_CALLBACK(dd_direct_written)
{
	struct kiocb *iocb = DD_ARG(fregs, 0);
	size_t count = (size_t)DD_ARG(fregs, 1);

	/* No exit is needed: i_dio_count keeps pages from being put until the end. */
	if (count && !dd_mutated("direct-write-unseen") && !dd_mutated("puts-beside-direct-io"))
		dd_on_content_change(iocb->ki_filp->f_mapping, iocb->ki_pos >> PAGE_SHIFT,
				     (iocb->ki_pos + count - 1) >> PAGE_SHIFT);
}

/*
 * A folio gets dirty: what the host may hold of it is old from now on. This
 * matters for folios that are not up to date, which a write of some of their
 * blocks makes: once these are written back and their buffers are gone, the
 * folio is read like a new one.
 */

static void dd_folio_dirtied(struct address_space *mapping, struct folio *folio)
{
	if (!dd_mutated("dirty-unseen"))
		dd_folio_changes(mapping, folio);
}

/* void __folio_mark_dirty(struct folio *, struct address_space *, int warn) */
DD_CALLBACK(dd_dirtied)
{
	dd_folio_dirtied(DD_ARG(fregs, 1), DD_ARG(fregs, 0));
}

/* bool filemap_dirty_folio(struct address_space *, struct folio *), which may
 * contain the above.
 */
DD_CALLBACK(dd_dirtied_in_cache)
{
	dd_folio_dirtied(DD_ARG(fregs, 0), DD_ARG(fregs, 1));
}

/*
 * The inode of a linked file leaves the inode cache: pages that are not in the
 * page cache stay valid (invariant 6); those that are leave through
 * delete_from_page_cache_batch().
 */
static bool dd_only_evicted(struct address_space *mapping)
{
	return mapping_exiting(mapping) &&
	       (mapping->host->i_nlink || dd_mutated("inode-reused")) &&
	       !dd_mutated("inode-forgotten");
}

static void dd_truncate(struct address_space *mapping, loff_t lstart, uoff_t lend)
{
	u64 first = (u64)lstart >> PAGE_SHIFT;
	u64 last = lend == -1 ? U64_MAX : lend >> PAGE_SHIFT;
	bool changes = !dd_only_evicted(mapping) && !dd_mutated("truncate-unseen") &&
		       !(dd_mutated("empty-unseen") && mapping_empty(mapping));

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
	bool changes = !dd_mutated("direct-write-unseen") &&
		       !(dd_mutated("puts-beside-direct-io") &&
			 atomic_read(&mapping->host->i_dio_count));
	int ret;

	atomic_inc(&dd_busy);
	if (changes)
		dd_on_content_change(mapping, start, end);
	ret = invalidate_inode_pages2_range(mapping, start, end);
	if (changes)
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

/* Whatever changes content or empties the cache is attached, or nothing is. */
static struct dd_hook dd_observers[] = {
	{ .symbol = "__filemap_remove_folio", .call = dd_remove_one },
	{ .symbol = "free_unref_folios", .call = dd_free_batch },
	{ .symbol = "delete_from_page_cache_batch", .call = dd_remove_batch },
	{ .symbol = "kiocb_invalidate_post_direct_write", .call = dd_direct_written },
	{ .symbol = "__folio_mark_dirty", .call = dd_dirtied },
	{ .symbol = "filemap_dirty_folio", .call = dd_dirtied_in_cache },
};

static struct dd_hook dd_diversions[] = {
	{ .symbol = "truncate_inode_pages_range", .call = dd_divert_truncate },
	{ .symbol = "invalidate_inode_pages2_range", .call = dd_divert_invalidate },
	{ .symbol = "generic_shutdown_super", .call = dd_divert_shutdown },
};

static struct dd_hook dd_ext4[] = {
	{ .symbol = "ext4_readahead", .call = dd_divert_readahead },
	{ .symbol = "ext4_read_folio", .call = dd_divert_read_folio },
};

static struct dd_hook dd_xfs[] = {
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

/* Reads of each filesystem; one that is not loaded has no functions yet. */
static struct dd_reads {
	const char *filesystem;
	struct dd_hook_set diverting;
	/* Another one has its functions. */
	bool refused;
} dd_reads[] = {
	{ "ext4", { .hooks = dd_ext4, .count = ARRAY_SIZE(dd_ext4), .diverts = true } },
	{ "xfs", { .hooks = dd_xfs, .count = ARRAY_SIZE(dd_xfs), .diverts = true } },
};

static int dd_reads_attach(struct dd_reads *reads)
{
	struct dd_hook_failure failure;
	int err;

	if (reads->diverting.registered)
		return 0;
	err = dd_hook_attach(&reads->diverting, &failure);
	if (err && err != -ENOENT && !reads->refused)
		pr_warn("doubledecker_guest: cannot attach to %s: %s (%d): files of %s are not cached\n",
			failure.symbol, failure.why, err, reads->filesystem);
	if (!err && reads->refused)
		pr_info("doubledecker_guest: files of %s are cached from now on\n",
			reads->filesystem);
	reads->refused = err && err != -ENOENT;
	return err;
}

/* Serialises attaching and detaching with modules that come and go. */
static DEFINE_MUTEX(dd_hooks_lock);
static bool dd_attached;

static int dd_module_event(struct notifier_block *block, unsigned long event, void *data)
{
	const struct module *module = data;
	struct dd_reads *reads;

	if (event != MODULE_STATE_LIVE && event != MODULE_STATE_GOING)
		return NOTIFY_DONE;
	mutex_lock(&dd_hooks_lock);
	for (reads = dd_reads; dd_attached && reads < dd_reads + ARRAY_SIZE(dd_reads); reads++) {
		bool its_own = !strcmp(module->name, reads->filesystem);

		if (its_own && event == MODULE_STATE_GOING) {
			dd_hook_detach(&reads->diverting);
			reads->refused = false;
		} else if (its_own || (reads->refused && event == MODULE_STATE_GOING)) {
			/* Who had its functions goes as a module, too. */
			dd_reads_attach(reads);
		}
	}
	mutex_unlock(&dd_hooks_lock);
	return NOTIFY_DONE;
}

static struct notifier_block dd_module_notifier = { .notifier_call = dd_module_event };

static void dd_hooks_detach(void)
{
	struct dd_reads *reads;

	dd_attached = false;
	/* No more reads from the host before changes are not seen any more. */
	for (reads = dd_reads; reads < dd_reads + ARRAY_SIZE(dd_reads); reads++) {
		dd_hook_detach(&reads->diverting);
		reads->refused = false;
	}
	dd_hook_detach(&dd_diverting);
	dd_hook_detach(&dd_observing);
}

int dd_hooks_install(struct dd_hook_failure *failure)
{
	struct dd_reads *reads;
	int err;

	mutex_lock(&dd_hooks_lock);
	err = dd_hook_attach(&dd_observing, failure);
	if (!err)
		err = dd_hook_attach(&dd_diverting, failure);
	for (reads = dd_reads; !err && reads < dd_reads + ARRAY_SIZE(dd_reads); reads++) {
		/* A filesystem that cannot be attached to is not cached. */
		if (dd_reads_attach(reads) == -ENOMEM) {
			*failure = (struct dd_hook_failure){ reads->filesystem,
							     "there is no memory" };
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
	if (err)
		*failure = (struct dd_hook_failure){ "(module notifier)", "it is refused" };
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
