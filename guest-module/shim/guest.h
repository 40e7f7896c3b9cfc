/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface between the module's C and Rust code, mirrored in src/ffi/.
 * Each C file wraps one header of the kernel, or a few related ones, and
 * contains only what Rust cannot use directly: macros, inline functions and
 * structures without bindings.
 */
#ifndef DD_GUEST_H
#define DD_GUEST_H

#include <linux/types.h>

/* Size in pages of the window that dd_ra_widen() sets. */
#define DD_RA_WIDE 256

/* Number of filesystems whose files are cached, if they are loaded. */
#define DD_FILESYSTEMS 2

struct address_space;
struct cgroup;
struct file;
struct folio;
struct folio_batch;
struct readahead_control;
struct super_block;

/*
 * Reasons for which pages of a mapping must not be put, or copies of them at
 * the host must not be used.
 */
enum {
	DD_MAPPING_FOREIGN	= 1 << 0, /* not a regular file of a known operations table */
	DD_MAPPING_SPECIAL	= 1 << 1, /* DAX, encrypted, verity, swap or quota file */
	DD_MAPPING_DIRECT	= 1 << 2, /* direct I/O is under way */
	DD_MAPPING_ERROR	= 1 << 3, /* a write failed: cache and disk may differ */
	DD_MAPPING_EXITING	= 1 << 4, /* the inode is being torn down */
};

struct dd_mapping {
	const struct super_block *sb;
	u64 inode;
	u64 end;		/* index of the first page behind the end of the file */
	u32 generation;
	u32 flags;
};

struct dd_folio {
	u64 index;
	u64 pfn;
	u32 pages;
	/* may be filled by the module: locked, not up to date, clean, idle, no private state */
	u32 fresh;
	u32 valid;		/* may be put: up to date, clean, no private state */
	u32 frozen;		/* no reference is left */
	u32 refaulted;		/* part of a working set, as the kernel sees it */
};

/* mapping.c */
void dd_mapping_view(struct address_space *mapping, struct dd_mapping *view);
bool dd_mapping_learn(struct address_space *mapping);
const struct super_block *dd_mapping_superblock(const struct address_space *mapping);
bool dd_mapping_may_become_dax(const struct address_space *mapping);
bool dd_mapping_in_direct_io(const struct address_space *mapping);
void dd_mapping_unlearn(void);
int dd_file_view(u32 fd, struct dd_mapping *view);

/* folio.c */
void dd_folio_view(struct folio *folio, struct dd_folio *view);
struct address_space *dd_folio_mapping(struct folio *folio);
u32 dd_batch_folios(const struct folio_batch *batch, struct folio *const **folios);
void dd_folio_touch(struct folio *folio, u32 pages);
void dd_folio_zero_tail(struct folio *folio, u32 first);

/* readahead.c */
void dd_ra_window(const struct readahead_control *rac, u64 *index, u32 *pages);
struct address_space *dd_ra_mapping(const struct readahead_control *rac);
struct folio *dd_ra_folio(const struct readahead_control *rac, u64 index);
void dd_ra_filled(struct folio *folio);
void dd_ra_original(struct readahead_control *rac, u64 index, u32 pages);
void dd_ra_consume(struct readahead_control *rac, u32 pages);
void dd_ra_widen(struct readahead_control *rac, u32 pages);
int dd_read_original(struct file *file, struct folio *folio);
void dd_read_filled(struct folio *folio);

/* cgroup.c */
u32 dd_folio_cgroups(struct folio *folio, u64 *ids, u32 max);
struct cgroup *dd_cgroup_open(const char *path, int *err);
void dd_cgroup_close(struct cgroup *cgroup);
u64 dd_cgroup_id(const struct cgroup *cgroup);
bool dd_cgroup_dead(const struct cgroup *cgroup);
int dd_cgroup_path(struct cgroup *cgroup, char *path, size_t len);

/* machine.c */
bool dd_machine_is_kvm_guest(void);
bool dd_machine_is_confidential(void);
long dd_hypercall(unsigned long nr, unsigned long address);
unsigned long dd_physical(const void *address);
u64 dd_memory_bytes(void);

/* cpu.c */
unsigned long dd_irq_save(void);
void dd_irq_restore(unsigned long flags);
void dd_preemption_off(void);
void dd_preemption_on(void);
void dd_cond_resched(void);
bool dd_should_sleep(void);
bool dd_killed(void);
void dd_sleep_us(unsigned int us);
bool dd_in_task(void);
unsigned long dd_current(void);

/* worker.c */
void dd_worker_start(void);
void dd_worker_kick(void);
void dd_worker_hurry(void);
void dd_worker_stop(void);

/* hooks.c */
struct dd_hook_failure;
int dd_hooks_install(struct dd_hook_failure *failure);
void dd_hooks_remove(void);
const char *dd_hooks_filesystem(unsigned int i);

/* settle.c */
int dd_settle(void);
void dd_settle_stop(void);

/* Causes for which pages at the host become invalid, as reported by the event dd_invalidate. */
enum dd_change {
	DD_CHANGE_REMOVED = 0,		/* left the page cache, and is not put */
	DD_CHANGE_DIRTIED = 1,
	DD_CHANGE_TRUNCATED = 2,
	DD_CHANGE_INVALIDATED = 3,
	DD_CHANGE_WRITTEN = 4,		/* a direct write */
	DD_CHANGE_SWAPPED = 5,		/* two files swapped blocks */
	DD_CHANGE_SWAP_FILE = 6,
};

/* Implemented in Rust. */
void dd_on_folio_removed(struct folio *folio, bool reclaimed);
void dd_on_folios_freed(struct folio_batch *batch);
void dd_on_content_change(struct address_space *mapping, u64 first, u64 last,
			  enum dd_change change);
void dd_on_range_change(struct address_space *mapping, u64 first, u64 last,
			enum dd_change change);
void dd_on_shutdown(const struct super_block *sb, bool done);
bool dd_on_readahead_wanted(void);
void dd_on_readahead(struct readahead_control *rac);
int dd_on_read_folio(struct file *file, struct folio *folio);
unsigned int dd_on_worker_run(void);
void dd_on_pause(bool pause);

#endif
