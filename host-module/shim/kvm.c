// SPDX-License-Identifier: GPL-2.0-only
/*
 * <linux/kvm_host.h>: handling the hypercall of DoubleDecker, accessing guest
 * memory, and noticing the end of a VM. kvm.ko is not changed: two of its
 * functions are hooked.
 */

#include <linux/module.h>
#include <linux/delay.h>
#include <linux/highmem.h>
#include <linux/kvm_host.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/uaccess.h>
#include <uapi/linux/kvm_para.h>
#include "../../shim/hook.h"
#include "host.h"

static u64 dd_number __read_mostly;

/*
 * Number of threads inside dd_kvm_hypercall(). A thread can be counted down on
 * another CPU than up, so that only the sum over all CPUs is meaningful.
 */
static DEFINE_PER_CPU(long, dd_inside);

/*
 * Returns a number that identifies a VM while it exists. No two VMs begin in the
 * same page. The module looks up each caller by this number in an xarray, whose
 * depth depends on the highest bit of its indices: the address itself would take
 * eleven levels, this number takes six (eight with five-level page tables).
 */
static u64 dd_kvm_key(const struct kvm *kvm)
{
	static_assert(sizeof(struct kvm) >= PAGE_SIZE);
	return ((unsigned long)kvm - PAGE_OFFSET) >> PAGE_SHIFT;
}

/*
 * Replaces ____kvm_emulate_hypercall() for the hypercall number of DoubleDecker.
 * It leaves the vCPU in the state in which the original leaves it after a call
 * that it has handled, but does not pass the tracepoint kvm_hypercall, because
 * KVM does not export it.
 */
static int dd_kvm_hypercall(struct kvm_vcpu *vcpu, int cpl,
			    int (*complete)(struct kvm_vcpu *vcpu))
{
	struct dd_call call = {
		.kvm = vcpu->kvm,
		.key = dd_kvm_key(vcpu->kvm),
		.gpa = vcpu->arch.regs[VCPU_REGS_RBX],
		.zero = {
			vcpu->arch.regs[VCPU_REGS_RCX],
			vcpu->arch.regs[VCPU_REGS_RDX],
			vcpu->arch.regs[VCPU_REGS_RSI],
		},
		.vcpus = atomic_read(&vcpu->kvm->online_vcpus),
		.kernel = cpl == 0,
	};

	this_cpu_inc(dd_inside);
	++vcpu->stat.hypercalls;
	vcpu->run->hypercall.ret = dd_host_call(&call);
	this_cpu_dec(dd_inside);
	return 1;
}

/*
 * Returns whether this is a hypercall of DoubleDecker: made by a 64-bit guest
 * whose registers and memory the host may read, and not by a nested guest whose
 * hypervisor did not intercept it.
 */
static bool dd_kvm_is_ours(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.regs[VCPU_REGS_RAX] == READ_ONCE(dd_number) &&
	       !vcpu->arch.guest_state_protected &&
	       (vcpu->arch.efer & EFER_LMA) &&
	       !(vcpu->arch.hflags & HF_GUEST_MASK) &&
	       vcpu->kvm->mm == current->mm;
}

static void dd_kvm_on_hypercall(struct ftrace_regs *fregs, unsigned long parent_ip)
{
	struct kvm_vcpu *vcpu = DD_ARG(fregs, 0);

	if (dd_kvm_is_ours(vcpu))
		dd_hook_divert(fregs, dd_kvm_hypercall);
}

static void dd_kvm_on_destroy(struct ftrace_regs *fregs, unsigned long parent_ip)
{
	dd_host_vm_gone(dd_kvm_key(DD_ARG(fregs, 0)));
}

static struct dd_hook dd_hypercall_hook = {
	.symbol = "____kvm_emulate_hypercall",
	.call = dd_kvm_on_hypercall,
};

static struct dd_hook_set dd_diverting = {
	.hooks = &dd_hypercall_hook,
	.count = 1,
	.diverts = true,
};

/* Its only caller, kvm_destroy_vm(), is static: some compilers inline it. */
static struct dd_hook dd_destroy_hook = {
	.symbol = "kvm_arch_pre_destroy_vm",
	.call = dd_kvm_on_destroy,
};

static struct dd_hook_set dd_observing = {
	.hooks = &dd_destroy_hook,
	.count = 1,
};

static int dd_kvm_hook(struct dd_hook_set *set)
{
	struct dd_hook_failure failure;
	int err = dd_hook_attach(set, &failure);

	if (err && err != -ENOMEM)
		pr_err("doubledecker_host: cannot attach to %s: %s (%d)\n", failure.symbol,
		       failure.why, err);
	return err;
}

int dd_kvm_attach(u64 number)
{
	int err;

	/* This hook comes first, so that the end of every VM that makes a call is noticed. */
	dd_number = number;
	err = dd_kvm_hook(&dd_observing);
	if (err)
		return err;
	err = dd_kvm_hook(&dd_diverting);
	if (err)
		dd_hook_detach(&dd_observing);
	return err;
}

static bool dd_kvm_is_inside(void)
{
	long inside = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		inside += READ_ONCE(per_cpu(dd_inside, cpu));
	return inside != 0;
}

void dd_kvm_detach(void)
{
	dd_hook_detach(&dd_diverting);
	/* Waits for threads that are diverted but not yet counted. */
	synchronize_rcu_tasks();
	while (dd_kvm_is_inside())
		msleep(10);
	dd_hook_detach(&dd_observing);
	/* Waits for threads that are counted down but have not left this module's code yet. */
	synchronize_rcu_tasks();
}

/* The caller is a vCPU's thread, which holds kvm->srcu. */
static struct kvm_memory_slot *dd_kvm_slot(struct kvm *kvm, u64 gfn)
{
	struct kvm_memory_slot *slot = __gfn_to_memslot(kvm_memslots(kvm), gfn);

	/* Memory that the host must not access, and slots that KVM uses internally. */
	if (!slot || slot->id >= KVM_USER_MEM_SLOTS ||
	    (slot->flags & (KVM_MEMSLOT_INVALID | KVM_MEM_GUEST_MEMFD)))
		return NULL;
	return slot;
}

static bool dd_kvm_may_write(const struct kvm_memory_slot *slot)
{
	return !kvm_slot_dirty_track_enabled(slot) && !(slot->flags & KVM_MEM_READONLY);
}

/*
 * Takes references to the pages of consecutive frames and returns their number.
 * It never waits: the series ends at a page that is not in memory (swapped out,
 * not yet received by a migration, or withheld by a userfaultfd), and at
 * mappings that are not ordinary memory, such as registers of a device (VM_IO,
 * VM_PFNMAP).
 */
static size_t dd_kvm_grab(const struct kvm_memory_slot *slot, u64 gfn, size_t count,
			  unsigned int flags, struct page **pages)
{
	unsigned long from = __gfn_to_hva_memslot(slot, gfn);
	size_t got = 0;
	long more;

	count = min_t(u64, count, slot->base_gfn + slot->npages - gfn);
	more = get_user_pages_fast_only(from, count, flags, pages);
	if (more > 0)
		got = more;
	/*
	 * The fast path fails for pages that are in memory but were unmapped by
	 * NUMA balancing, which observes from which nodes they are accessed. On
	 * large hosts this concerns many of the pages that a guest reclaims.
	 */
	if (got < count && mmap_read_trylock(current->mm)) {
		more = get_user_pages(from + got * PAGE_SIZE, count - got,
				      flags | FOLL_NOFAULT, pages + got);
		mmap_read_unlock(current->mm);
		if (more > 0)
			got += more;
	}
	return got;
}

static void dd_kvm_release(struct page **pages, size_t count)
{
	while (count--)
		put_page(pages[count]);
}

/* Number of pages that are looked up at a time; their addresses are on the stack. */
#define DD_TOGETHER 32

/*
 * Copies from a page of the guest and returns whether all of it could be read.
 * An uncorrectable memory error in a guest's page must not panic the host.
 */
static bool dd_kvm_copy(void *to, struct page *page, size_t offset, size_t len)
{
	void *from = kmap_local_page(page);
	bool whole = !copy_mc_to_kernel(to, from + offset, len);

	kunmap_local(from);
	return whole;
}

/*
 * Takes a reference to a page of the guest, which dd_kvm_release_page() drops.
 * Returns -EFAULT if the VM has no memory there, and -EAGAIN if the page is
 * absent. Sets @writable if the page that follows is known to be ordinary
 * memory that can be written without waiting: a look at both costs little more
 * than a look at one.
 */
int dd_kvm_grab_page(struct kvm *kvm, u64 gfn, struct page **page, bool *writable)
{
	struct kvm_memory_slot *slot = dd_kvm_slot(kvm, gfn);
	struct page *pages[2];

	*writable = false;
	if (!slot)
		return -EFAULT;
	if (dd_kvm_may_write(slot)) {
		size_t got = dd_kvm_grab(slot, gfn, 2, FOLL_WRITE, pages);

		*writable = got == 2;
		if (*writable)
			put_page(pages[1]);
		if (got) {
			*page = pages[0];
			return 0;
		}
	}
	return dd_kvm_grab(slot, gfn, 1, 0, page) ? 0 : -EAGAIN;
}

void dd_kvm_release_page(struct page *page)
{
	put_page(page);
}

/* Reads from a page of the guest. Returns -EFAULT if the memory is broken. */
int dd_kvm_read(struct page *page, size_t offset, void *to, size_t len)
{
	return dd_kvm_copy(to, page, offset, len) ? 0 : -EFAULT;
}

/*
 * Copies consecutive frames of the guest to pages of the host. After an error,
 * an unknown part of them has been copied. Returns -EFAULT if the VM has no
 * memory there or if the memory is broken, and -EAGAIN if a page is absent.
 */
int dd_kvm_fill(struct kvm *kvm, u64 gfn, const u64 *frames, size_t count)
{
	struct page *pages[DD_TOGETHER];

	while (count) {
		struct kvm_memory_slot *slot = dd_kvm_slot(kvm, gfn);
		size_t got, i;

		if (!slot)
			return -EFAULT;
		got = dd_kvm_grab(slot, gfn, min_t(size_t, count, DD_TOGETHER), 0, pages);
		for (i = 0; i < got; i++) {
			if (!dd_kvm_copy(dd_page_address(frames[i]), pages[i], 0, PAGE_SIZE))
				break;
		}
		dd_kvm_release(pages, got);
		if (i < got)
			return -EFAULT;
		if (!got)
			return -EAGAIN;
		gfn += got;
		frames += got;
		count -= got;
	}
	return 0;
}

/*
 * Returns whether all these frames are ordinary memory that can be written
 * without waiting. The VMM may change that at any time; a later write then fails.
 */
bool dd_kvm_present(struct kvm *kvm, u64 gfn, u64 count)
{
	struct page *pages[DD_TOGETHER];

	while (count) {
		struct kvm_memory_slot *slot = dd_kvm_slot(kvm, gfn);
		size_t got;

		if (!slot)
			return false;
		got = dd_kvm_grab(slot, gfn, min_t(u64, count, DD_TOGETHER), FOLL_WRITE, pages);
		dd_kvm_release(pages, got);
		if (!got)
			return false;
		gfn += got;
		count -= got;
	}
	return true;
}

/*
 * Writes to user memory without faulting pages in, and returns whether all was
 * written. This is copy_to_user_nofault() without the check of hardened
 * usercopy, which takes as long as the copy of a page: callers pass whole pages
 * of the cache, or slices whose bounds Rust has checked.
 */
static bool dd_copy_to_user(void __user *to, const void *from, size_t len)
{
	unsigned long left;

	if (!access_ok(to, len))
		return false;
	instrument_copy_to_user(to, from, len);
	pagefault_disable();
	left = raw_copy_to_user(to, from, len);
	pagefault_enable();
	return !left;
}

/* Writes guest memory inside one page. Returns -EFAULT if that is impossible without waiting. */
int dd_kvm_write(struct kvm *kvm, u64 gpa, const void *from, size_t len)
{
	u64 gfn = gpa >> PAGE_SHIFT;
	struct kvm_memory_slot *slot = dd_kvm_slot(kvm, gfn);
	void __user *to;

	if (!slot || !dd_kvm_may_write(slot))
		return -EFAULT;
	to = (void __user *)(__gfn_to_hva_memslot(slot, gfn) + offset_in_page(gpa));
	return dd_copy_to_user(to, from, len) ? 0 : -EFAULT;
}

/*
 * Returns whether these frames may be written now. The result remains valid for
 * the rest of the call, because KVM waits for readers of kvm->srcu when dirty
 * tracking is switched on, before it reports dirty pages.
 */
bool dd_kvm_writable(struct kvm *kvm, u64 gfn, u64 pages)
{
	u64 end = gfn + pages;

	while (gfn < end) {
		struct kvm_memory_slot *slot = dd_kvm_slot(kvm, gfn);

		if (!slot || !dd_kvm_may_write(slot))
			return false;
		gfn = slot->base_gfn + slot->npages;
	}
	return true;
}

/* The module needs KVM: this reference to a symbol of kvm.ko keeps it loaded. */
static void (*const dd_kvm_needed)(struct kvm *kvm) __used = kvm_put_kvm;

#include "../../shim/hook.c"
