// SPDX-License-Identifier: GPL-2.0-only
/* <linux/moduleparam.h>: parameters in sysfs, because those of Rust modules do not appear there. */

#include <linux/moduleparam.h>
#include "host.h"

static unsigned int dd_max_vms = 4096;
module_param_named(max_vms, dd_max_vms, uint, 0444);
MODULE_PARM_DESC(max_vms, "Maximum number of VMs registered at a time");

static unsigned int dd_default_weight = 100;
module_param_named(default_weight, dd_default_weight, uint, 0444);
MODULE_PARM_DESC(default_weight, "Weight of a VM until one is set (0: none of its pages are kept)");

u32 dd_param_max_vms(void)
{
	return dd_max_vms;
}

u32 dd_param_default_weight(void)
{
	return dd_default_weight;
}
