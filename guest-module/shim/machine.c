// SPDX-License-Identifier: GPL-2.0
/* The machine we run on: hypercalls, interrupts, memory. */

#include <linux/cc_platform.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/irqflags.h>
#include <linux/kvm_para.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include "guest.h"

bool dd_machine_is_kvm_guest(void)
{
	return kvm_para_available();
}

bool dd_machine_is_confidential(void)
{
	return cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT);
}

long dd_hypercall(unsigned long nr, unsigned long address)
{
	return kvm_hypercall4(nr, address, 0, 0, 0);
}

unsigned long dd_irq_save(void)
{
	unsigned long flags;

	local_irq_save(flags);
	return flags;
}

void dd_irq_restore(unsigned long flags)
{
	local_irq_restore(flags);
}

void dd_preemption_off(void)
{
	preempt_disable();
}

void dd_preemption_on(void)
{
	preempt_enable();
}

void dd_breathe(void)
{
	cond_resched();
}

bool dd_in_task(void)
{
	return in_task();
}

unsigned long dd_current(void)
{
	return (unsigned long)current;
}

unsigned long dd_physical(const void *address)
{
	return virt_to_phys((void *)address);
}

u64 dd_memory_bytes(void)
{
	struct sysinfo info;

	si_meminfo(&info);
	return (u64)info.totalram * info.mem_unit;
}

/* The file behind the caller's descriptor. */
int dd_file_view(u32 fd, struct dd_mapping *view)
{
	CLASS(fd, file)(fd);

	if (fd_empty(file))
		return -EBADF;
	dd_mapping_view(fd_file(file)->f_mapping, view);
	return 0;
}
