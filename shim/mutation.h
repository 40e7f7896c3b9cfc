/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Breaking an invariant on purpose, to see whether tests notice. This is only
 * in modules that were built with DD_MUTATIONS=1. In all others dd_mutated() is
 * false at compile time, and nothing of it remains.
 * tests/scenarios/src/mutations/list.rs lists the names, and which test must
 * notice.
 */
#ifndef DD_SHIM_MUTATION_H
#define DD_SHIM_MUTATION_H

#include <linux/types.h>

#ifdef DD_MUTATIONS
/* Returns whether the module was loaded with mutation=NAME or mutation=NAME,NAME. Any context. */
bool dd_mutated(const char *name);
#else
#define dd_mutated(name) false
#endif

#endif
