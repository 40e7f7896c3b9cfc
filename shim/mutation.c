// SPDX-License-Identifier: GPL-2.0
/* One C file of each module includes this; it is built for mutations only. */

#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/string.h>
#include "mutation.h"

#define DD_MAX_MUTATIONS 2

static char *dd_mutations[DD_MAX_MUTATIONS];
static unsigned int dd_mutation_count;
module_param_array_named(mutation, dd_mutations, charp, &dd_mutation_count, 0444);

bool dd_mutated(const char *name)
{
	unsigned int at;

	for (at = 0; at < dd_mutation_count; at++)
		if (!strcmp(dd_mutations[at], name))
			return true;
	return false;
}
