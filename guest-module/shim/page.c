// SPDX-License-Identifier: GPL-2.0
/* Folios, mappings and inodes, as Rust needs to see them. */

#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/folio_batch.h>
#include <linux/fs.h>
#include <linux/kallsyms.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/quotaops.h>
#include "guest.h"
#include "../../shim/mutation.h"

/*
 * Operations tables whose folios need no private state when they are fresh.
 * The tables are static in their filesystems, so they are known by the names
 * of two of their functions; ext4's journalled table differs in dirty_folio.
 */
static const struct {
	const char *readahead;
	const char *dirty_folio;
} dd_known[] = {
	{ "ext4_readahead", "ext4_dirty_folio" },
	{ "xfs_vm_readahead", "iomap_dirty_folio" },
};

/* Tables recognised so far; written once each, under dd_mapping_learn(). */
static const struct address_space_operations *dd_tables[8];
static DEFINE_SPINLOCK(dd_tables_lock);

static bool dd_table_known(const struct address_space_operations *table)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(dd_tables); i++) {
		const struct address_space_operations *known = READ_ONCE(dd_tables[i]);

		if (!known)
			return false;
		if (known == table)
			return true;
	}
	return false;
}

static bool dd_named(const void *function, const char *name)
{
	char symbol[KSYM_SYMBOL_LEN];
	size_t len = strlen(name);

	if (!function)
		return false;
	sprint_symbol_no_offset(symbol, (unsigned long)function);
	/* A module's symbol is followed by " [module]". */
	return !strncmp(symbol, name, len) && (!symbol[len] || symbol[len] == ' ');
}

/* Process context, at the first read of a table's file. */
bool dd_mapping_learn(struct address_space *mapping)
{
	const struct address_space_operations *table = mapping->a_ops;
	int i;

	if (dd_table_known(table))
		return true;
	for (i = 0; i < ARRAY_SIZE(dd_known); i++)
		if (dd_named(table->readahead, dd_known[i].readahead) &&
		    dd_named(table->dirty_folio, dd_known[i].dirty_folio))
			break;
	if (i == ARRAY_SIZE(dd_known))
		return false;

	spin_lock(&dd_tables_lock);
	for (i = 0; i < ARRAY_SIZE(dd_tables); i++) {
		if (dd_tables[i] == table)
			break;
		if (!dd_tables[i]) {
			WRITE_ONCE(dd_tables[i], table);
			break;
		}
	}
	spin_unlock(&dd_tables_lock);
	return i < ARRAY_SIZE(dd_tables);
}

/*
 * Identity of the superblock: an address that is compared, never followed. A
 * device has the same number when it is mounted again, a superblock may.
 */
const struct super_block *dd_mapping_superblock(const struct address_space *mapping)
{
	const struct super_block *sb = mapping->host->i_sb;

	return dd_mutated("unmount-unseen") ? (void *)(unsigned long)sb->s_dev : sb;
}

/*
 * Whether files of the mapping's filesystem may be DAX for some time: they are
 * written without a word to us then, and their pages from before would be found
 * again after it. The device is that of the mount for ext4 and XFS; for other
 * filesystems it may go at any time, so the table must be known.
 */
bool dd_mapping_may_become_dax(const struct address_space *mapping)
{
	struct block_device *device = mapping->host->i_sb->s_bdev;

	return device && blk_queue_dax(bdev_get_queue(device));
}

/*
 * Whether direct I/O is under way on the file. What the caller does after this
 * comes after it for the one who ends the I/O, too.
 */
bool dd_mapping_in_direct_io(const struct address_space *mapping)
{
	return atomic_read_acquire(&mapping->host->i_dio_count);
}

void dd_mapping_view(struct address_space *mapping, struct dd_mapping *view)
{
	struct inode *inode = mapping->host;
	u32 flags = 0;

	view->sb = dd_mapping_superblock(mapping);
	view->inode = inode->i_ino;
	view->generation = dd_mutated("inode-reused") ? 0 : inode->i_generation;
	view->end = DIV_ROUND_UP_ULL(i_size_read(inode), PAGE_SIZE);

	if (!S_ISREG(inode->i_mode) || !dd_table_known(mapping->a_ops))
		flags |= DD_MAPPING_FOREIGN;
	if (IS_DAX(inode) || IS_ENCRYPTED(inode) || IS_VERITY(inode) ||
	    IS_SWAPFILE(inode) || IS_NOQUOTA(inode))
		flags |= DD_MAPPING_SPECIAL;
	if (atomic_read(&inode->i_dio_count))
		flags |= DD_MAPPING_DIRECT;
	if (READ_ONCE(mapping->wb_err) || test_bit(AS_EIO, &mapping->flags) ||
	    test_bit(AS_ENOSPC, &mapping->flags))
		flags |= DD_MAPPING_ERROR;
	if (mapping_exiting(mapping))
		flags |= DD_MAPPING_EXITING;
	if (!inode->i_nlink)
		flags |= DD_MAPPING_UNLINKED;
	view->flags = flags;
	/* Direct I/O rarely begins just now by itself. */
	if (dd_mutated("direct-io-looked-at-once") && irqs_disabled())
		mdelay(3);
}

void dd_folio_view(struct folio *folio, struct dd_folio *view)
{
	bool quiet = !folio_test_dirty(folio) && !folio_test_writeback(folio) &&
		     !folio_test_private(folio) && !folio_test_private_2(folio) &&
		     !folio_contain_hwpoisoned_page(folio);

	view->index = folio->index;
	view->pfn = folio_pfn(folio);
	view->pages = folio_nr_pages(folio);
	view->fresh = quiet && !folio_test_uptodate(folio) && folio_test_locked(folio);
	view->valid = quiet && folio_test_uptodate(folio);
	view->frozen = folio_ref_count(folio) == 0;
	view->refaulted = folio_test_workingset(folio);
}

struct address_space *dd_folio_mapping(struct folio *folio)
{
	return folio->mapping;
}

u32 dd_batch_folios(const struct folio_batch *batch, struct folio *const **folios)
{
	*folios = batch->folios;
	return batch->nr;
}

/* Zeroes all pages of the folio from its page `first` on. */
void dd_folio_zero_tail(struct folio *folio, u32 first)
{
	folio_zero_segment(folio, (size_t)first * PAGE_SIZE, folio_size(folio));
}
