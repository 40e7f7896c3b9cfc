/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Breaking an invariant on purpose, to see whether the tests notice. Only in
 * modules built with DD_MUTATIONS=1: in all others dd_mutated() is false at
 * compile time, and nothing of this remains. The names are listed in
 * tests/scenarios/src/mutations.rs, with who must notice.
 */
#ifndef DD_SHIM_MUTATION_H
#define DD_SHIM_MUTATION_H

#include <linux/types.h>

#ifdef DD_MUTATIONS
/* Whether the module was loaded with mutation=NAME or mutation=NAME,NAME; any context. */
bool dd_mutated(const char *name);
#else
#define dd_mutated(name) false
#endif

#endif
