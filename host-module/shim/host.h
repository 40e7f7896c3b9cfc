/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interface between the C shims of the host module and src/ffi.rs. Shims wrap
 * what Rust cannot call (inline functions, macros, per-CPU data); they make no
 * decisions.
 */
#ifndef DD_HOST_H
#define DD_HOST_H

#include <linux/types.h>

struct kvm;

/* Registers of a call, in the order of ddabi/src/hypercall.rs. */
struct dd_call {
	struct kvm *kvm;
	u64 key;		/* identifies the VM */
	u64 gpa;		/* rbx */
	u64 zero[3];		/* rcx, rdx, rsi */
	u32 vcpus;		/* of the VM */
	bool kernel;		/* from the guest's kernel mode */
};

/* Implemented in Rust. */

/* Called by a vCPU's thread; may sleep. */
u64 dd_host_call(const struct dd_call *call);
/* Called with the key of a VM that has no more users; does not sleep. */
void dd_host_vm_gone(u64 key);
/* Called by memory reclaim, the OOM notifier and the background evictor; may sleep. */
unsigned long dd_host_shrinkable(int nid);
unsigned long dd_host_shrink(unsigned long pages, int nid);
unsigned long dd_host_rescue(void);
void dd_host_refill(void);

/* kvm.c */
int dd_kvm_attach(u64 number);
void dd_kvm_detach(void);
int dd_kvm_grab_page(struct kvm *kvm, u64 gfn, struct page **page, bool *writable);
void dd_kvm_release_page(struct page *page);
int dd_kvm_read(struct page *page, size_t offset, void *to, size_t len);
int dd_kvm_fill(struct kvm *kvm, u64 gfn, const u64 *frames, size_t count);
int dd_kvm_write(struct kvm *kvm, u64 gpa, const void *from, size_t len);
bool dd_kvm_present(struct kvm *kvm, u64 gfn, u64 count);
bool dd_kvm_writable(struct kvm *kvm, u64 gfn, u64 pages);

/* page.c */
int dd_pages_init(void);
void dd_pages_exit(void);
u64 dd_pages_on(int nid);
int dd_page_node(u64 frame);
size_t dd_pages_alloc(u64 *frames, size_t count, bool below_floor);
void dd_page_free(u64 frame);
void dd_page_share(u64 frame);
bool dd_page_shared(u64 frame);
void *dd_page_address(u64 frame);
u64 dd_page_checksum(u64 frame, u64 seed);
u64 dd_pages_total(void);
u64 dd_pages_spare(void);

/* disk.c */
struct dd_disk;
struct dd_disk *dd_disk_open(const char *path, u64 *pages);
void dd_disk_close(struct dd_disk *disk);
bool dd_disk_dead(const struct dd_disk *disk);
bool dd_disk_idle(const struct dd_disk *disk);
int dd_disk_clear(struct dd_disk *disk, u64 first, u64 count);
bool dd_disk_discards(const struct dd_disk *disk);
int dd_disk_discard(struct dd_disk *disk, u64 first, u64 count);
int dd_disk_write(struct dd_disk *disk, u64 first, const u64 *frames, size_t count, u32 stream);
struct dd_read;
struct dd_read *dd_disk_begin(struct dd_disk *disk, const u64 *places, const u64 *frames,
			      size_t count, bool nowait);
bool dd_disk_has_read(struct dd_read *read);
int dd_disk_finish(struct dd_read *read, u64 limit_us, u64 *took_us);

/* param.c */
u32 dd_param_max_vms(void);
u32 dd_param_default_weight(void);

/* shrinker.c */
int dd_shrinker_register(void);
void dd_shrinker_unregister(void);
void dd_reclaim_enter(void);
void dd_reclaim_leave(void);

/* oom.c */
int dd_oom_register(void);
void dd_oom_unregister(void);

/* queue.c */
struct workqueue_struct;
int dd_queue_create(void);
void dd_queue_destroy(void);
void dd_queue_flush(void);
void dd_queue_wake_evictor(void);
struct workqueue_struct *dd_queue_get(void);
void dd_cond_resched(void);
bool dd_dying(void);

#endif
