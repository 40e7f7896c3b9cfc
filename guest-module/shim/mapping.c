// SPDX-License-Identifier: GPL-2.0-only
/* Views of mappings and their inodes, and recognition of operations tables. */

#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kallsyms.h>
#include <linux/pagemap.h>
#include <linux/quotaops.h>
#include "guest.h"

/*
 * Operations tables whose folios have no private state when they are fresh.
 * Because the tables are static in their filesystems, they are recognised by
 * the names of two of their functions. The table of ext4 for journalled data
 * differs in dirty_folio.
 */
static const struct {
	const char *readahead;
	const char *dirty_folio;
} dd_known[] = {
	{ "ext4_readahead", "ext4_dirty_folio" },
	{ "xfs_vm_readahead", "iomap_dirty_folio" },
};

/*
 * Tables that were examined already, known ones and others. They are remembered
 * because finding the name of a module's function is slow. Readers take no
 * lock, writers take dd_tables_lock; free entries are NULL.
 */
struct dd_tables {
	const struct address_space_operations *seen[8];
};

static struct dd_tables dd_ours, dd_others;
static DEFINE_SPINLOCK(dd_tables_lock);

static bool dd_table_in(const struct dd_tables *tables,
			const struct address_space_operations *table)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(tables->seen); i++)
		if (READ_ONCE(tables->seen[i]) == table)
			return true;
	return false;
}

static bool dd_table_known(const struct address_space_operations *table)
{
	return dd_table_in(&dd_ours, table);
}

/* Adds a table. Returns false if there is no room. */
static bool dd_table_note(struct dd_tables *tables, const struct address_space_operations *table)
{
	bool noted;
	int i;

	spin_lock(&dd_tables_lock);
	noted = dd_table_in(tables, table);
	for (i = 0; !noted && i < ARRAY_SIZE(tables->seen); i++) {
		if (!tables->seen[i]) {
			WRITE_ONCE(tables->seen[i], table);
			noted = true;
		}
	}
	spin_unlock(&dd_tables_lock);
	return noted;
}

/*
 * Forgets all tables, because a module is being unloaded: if it is a
 * filesystem, another one may place its tables at the same addresses. Tables of
 * the other filesystems are examined again.
 */
void dd_mapping_unlearn(void)
{
	int i;

	spin_lock(&dd_tables_lock);
	for (i = 0; i < ARRAY_SIZE(dd_ours.seen); i++) {
		WRITE_ONCE(dd_ours.seen[i], NULL);
		WRITE_ONCE(dd_others.seen[i], NULL);
	}
	spin_unlock(&dd_tables_lock);
}

static bool dd_named(const void *function, const char *name)
{
	char symbol[KSYM_SYMBOL_LEN];
	size_t len = strlen(name);

	if (!function)
		return false;
	sprint_symbol_no_offset(symbol, (unsigned long)function);
	/* The name of a module's symbol is followed by " [module]". */
	return !strncmp(symbol, name, len) && (!symbol[len] || symbol[len] == ' ');
}

/*
 * Returns whether the mapping's table is known. Examines a table at the first
 * read of one of its files. Process context.
 */
bool dd_mapping_learn(struct address_space *mapping)
{
	const struct address_space_operations *table = mapping->a_ops;
	int i;

	if (dd_table_known(table))
		return true;
	if (dd_table_in(&dd_others, table))
		return false;
	for (i = 0; i < ARRAY_SIZE(dd_known); i++)
		if (dd_named(table->readahead, dd_known[i].readahead) &&
		    dd_named(table->dirty_folio, dd_known[i].dirty_folio))
			return dd_table_note(&dd_ours, table);
	dd_table_note(&dd_others, table);
	return false;
}

/*
 * Returns the address of the superblock, which callers only compare and never
 * dereference. The device number does not suffice, because a device has the
 * same number when it is mounted again.
 */
const struct super_block *dd_mapping_superblock(const struct address_space *mapping)
{
	return mapping->host->i_sb;
}

/*
 * Returns whether files of the mapping's filesystem may become DAX. Writes to a
 * DAX file bypass all hooks, and copies of pages from before that time would be
 * found later. The operations table must be known: ext4 and XFS keep their
 * device while they are mounted, but other filesystems may not.
 */
bool dd_mapping_may_become_dax(const struct address_space *mapping)
{
	struct block_device *device = mapping->host->i_sb->s_bdev;

	return device && blk_queue_dax(bdev_get_queue(device));
}

/*
 * Returns whether direct I/O is under way on the file. The read has acquire
 * semantics: later accesses of the caller are ordered after it.
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
	view->generation = inode->i_generation;
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
	view->flags = flags;
}

/* Fills the view of the file behind a descriptor of the running task. Returns 0 or -EBADF. */
int dd_file_view(u32 fd, struct dd_mapping *view)
{
	CLASS(fd, file)(fd);

	if (fd_empty(file))
		return -EBADF;
	dd_mapping_view(fd_file(file)->f_mapping, view);
	return 0;
}
