// SPDX-License-Identifier: GPL-2.0-only
/* Properties of the machine (KVM, confidential memory, memory size), and hypercalls. */

#include <linux/cc_platform.h>
#include <linux/io.h>
#include <linux/kvm_para.h>
#include <linux/mm.h>
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
