// SPDX-License-Identifier: GPL-2.0
/* Included by one C file of each module, which is built for mutations only. */

#include <linux/moduleparam.h>
#include <linux/string.h>
#include "mutation.h"

static char *dd_mutation = "none";
module_param_named(mutation, dd_mutation, charp, 0444);

bool dd_mutated(const char *name)
{
	return !strcmp(dd_mutation, name);
}
