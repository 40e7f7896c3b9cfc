// SPDX-License-Identifier: GPL-2.0-only
/* Readahead windows, and reads by the filesystem itself. */

#include <linux/backing-dev.h>
#include <linux/fs.h>
#include <linux/pagemap.h>
#include "guest.h"

void dd_ra_window(const struct readahead_control *rac, u64 *index, u32 *pages)
{
	*index = rac->_index;
	*pages = rac->_nr_pages;
}

struct address_space *dd_ra_mapping(const struct readahead_control *rac)
{
	return rac->mapping;
}

struct folio *dd_ra_folio(const struct readahead_control *rac, u64 index)
{
	return xa_load(&rac->mapping->i_pages, index);
}

/* Ends the read of a folio that is up to date, as a filesystem does. */
void dd_ra_filled(struct folio *folio)
{
	folio_end_read(folio, true);
	folio_put(folio);
}

/* Lets the filesystem read a part of the window. */
void dd_ra_original(struct readahead_control *rac, u64 index, u32 pages)
{
	struct readahead_control part = *rac;
	struct folio *folio;

	part._index = index;
	part._nr_pages = pages;
	part._batch_count = 0;
	rac->mapping->a_ops->readahead(&part);
	/*
	 * Folios that the filesystem did not read stay in the page cache and
	 * are not up to date. The kernel reads each of them with read_folio
	 * when it is needed.
	 */
	while ((folio = readahead_folio(&part)))
		folio_unlock(folio);
}

/* Removes the first pages from the window, because they were read. */
void dd_ra_consume(struct readahead_control *rac, u32 pages)
{
	rac->_index += pages;
	rac->_nr_pages -= pages;
	rac->_batch_count = 0;
}

/*
 * Returns whether the module has set this window. A window of twice the usual
 * size may have been set by the reader (posix_fadvise()).
 */
static bool dd_ra_is_ours(unsigned int pages, unsigned int usual)
{
	return pages == DD_RA_WIDE && pages != 2 * usual;
}

/*
 * Sets the size of the file's windows, or with 0 restores the device's setting.
 * Sequential reads that the host serves get large windows, because an exit
 * costs the same for many pages as for one.
 */
void dd_ra_widen(struct readahead_control *rac, u32 pages)
{
	struct file_ra_state *ra = rac->ra;
	unsigned int usual = inode_to_bdi(rac->mapping->host)->ra_pages;

	if (!ra)
		return;
	/*
	 * Only a window of the usual size is enlarged, and only one that the
	 * module enlarged is restored: posix_fadvise() sets 0 (random access)
	 * or twice the usual size (sequential access), and nothing else would
	 * restore that.
	 */
	if (pages > usual && ra->ra_pages == usual)
		ra->ra_pages = pages;
	else if (!pages && dd_ra_is_ours(ra->ra_pages, usual))
		ra->ra_pages = usual;
}

int dd_read_original(struct file *file, struct folio *folio)
{
	/* The call must not be a tail call: see shim/hook.h. */
	int ret = folio->mapping->a_ops->read_folio(file, folio);

	barrier();
	return ret;
}

void dd_read_filled(struct folio *folio)
{
	folio_end_read(folio, true);
}
