// SPDX-License-Identifier: GPL-2.0-only
/* Views of folios, and writing to them. */

#include <linux/folio_batch.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include "guest.h"

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

/*
 * Writes to the folio's first pages without changing them, so that the
 * hypervisor makes absent pages present, as for any write of a guest. This is
 * needed because the host module does not wait for absent pages. The folio must
 * be locked and not up to date, so that nothing else writes to it.
 */
void dd_folio_touch(struct folio *folio, u32 pages)
{
	u32 n;

	for (n = 0; n < pages; n++) {
		unsigned long *word = page_address(folio_page(folio, n));

		WRITE_ONCE(*word, READ_ONCE(*word));
	}
}

/* Zeroes the pages of the folio from its page `first` on. */
void dd_folio_zero_tail(struct folio *folio, u32 first)
{
	folio_zero_segment(folio, (size_t)first * PAGE_SIZE, folio_size(folio));
}
