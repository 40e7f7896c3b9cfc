// SPDX-License-Identifier: GPL-2.0-only
/*
 * <linux/kvm_host.h>: taking our hypercall, reaching guest memory, and learning
 * of a VM's end. kvm.ko is not changed: two of its functions are hooked.
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

/* Threads inside our hypercall; only the sum over all CPUs means anything. */
static DEFINE_PER_CPU(long, dd_inside);

/*
 * In place of ____kvm_emulate_hypercall(), for our number only. Leaves exactly
 * what the original leaves for a call that it handled, but does not pass its
 * tracepoint, kvm_hypercall, which KVM does not export.
 */
static int dd_kvm_hypercall(struct kvm_vcpu *vcpu, int cpl,
			    int (*complete)(struct kvm_vcpu *vcpu))
{
	struct dd_call call = {
		.kvm = vcpu->kvm,
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
 * Ours: 64-bit guests whose registers and memory we may see, not a nested
 * guest's call that its hypervisor let through.
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
	dd_host_vm_gone(DD_ARG(fregs, 0));
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

/* Its only caller, kvm_destroy_vm(), is static: some compilers leave no function. */
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

	/* The end must be seen of every VM that can begin. */
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
		inside += per_cpu(dd_inside, cpu);
	return inside != 0;
}

void dd_kvm_detach(void)
{
	dd_hook_detach(&dd_diverting);
	/* Those diverted but not yet counted. */
	synchronize_rcu_tasks();
	while (dd_kvm_is_inside())
		msleep(10);
	dd_hook_detach(&dd_observing);
	/* Those counted down but not yet out of our code. */
	synchronize_rcu_tasks();
}

/* The caller is a vCPU's thread, which holds kvm->srcu. */
static struct kvm_memory_slot *dd_kvm_slot(struct kvm *kvm, u64 gfn)
{
	struct kvm_memory_slot *slot = __gfn_to_memslot(kvm_memslots(kvm), gfn);

	/* Memory the host may not touch, and KVM's own slots. */
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
 * Takes references to pages of consecutive frames; returns how many it got. It
 * never waits: a page that is not in memory (swapped out, not yet received by a
 * migration, or withheld by a userfaultfd) ends the series, and so does what is
 * not ordinary memory, such as a device's registers (VM_IO, VM_PFNMAP).
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
	 * Pages that NUMA balancing has unmapped to see who uses them are in
	 * memory. On large hosts many of the pages that a guest reclaims are.
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

/* Pages that are looked up together; their addresses are on the stack. */
#define DD_TOGETHER 32

/* Whether a page came whole. Broken memory of a guest is no reason to panic. */
static bool dd_kvm_copy(void *to, struct page *page, size_t offset, size_t len)
{
	void *from = kmap_local_page(page);
	bool whole = !copy_mc_to_kernel(to, from + offset, len);

	kunmap_local(from);
	return whole;
}

/*
 * Reads guest memory inside one page. Returns -EFAULT where the VM has no
 * memory, and -EAGAIN if the page is absent.
 */
int dd_kvm_read(struct kvm *kvm, u64 gpa, void *to, size_t len)
{
	u64 gfn = gpa >> PAGE_SHIFT;
	struct kvm_memory_slot *slot = dd_kvm_slot(kvm, gfn);
	struct page *page;
	bool whole;

	if (!slot)
		return -EFAULT;
	if (!dd_kvm_grab(slot, gfn, 1, 0, &page))
		return -EAGAIN;
	whole = dd_kvm_copy(to, page, offset_in_page(gpa), len);
	put_page(page);
	return whole ? 0 : -EFAULT;
}

/*
 * Fills pages of ours from consecutive frames of the guest, all of them or an
 * unknown part. Returns as dd_kvm_read() does.
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
 * Whether all these frames are ordinary memory that can be written without
 * waiting. A VMM may change that at any time: the write fails then.
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

/* Writes guest memory inside one page, if it is there. */
int dd_kvm_write(struct kvm *kvm, u64 gpa, const void *from, size_t len)
{
	u64 gfn = gpa >> PAGE_SHIFT;
	struct kvm_memory_slot *slot = dd_kvm_slot(kvm, gfn);
	void __user *to;

	if (!slot || !dd_kvm_may_write(slot))
		return -EFAULT;
	to = (void __user *)(__gfn_to_hva_memslot(slot, gfn) + offset_in_page(gpa));
	return copy_to_user_nofault(to, from, len) ? -EFAULT : 0;
}

/*
 * Whether these frames may be written now. It stays so for the rest of the
 * call: who switches dirty tracking on waits for kvm->srcu before it looks.
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

/* Nothing of ours works without KVM: its symbols keep it loaded. */
static void (*const dd_kvm_needed)(struct kvm *kvm) __used = kvm_put_kvm;

#include "../../shim/hook.c"
