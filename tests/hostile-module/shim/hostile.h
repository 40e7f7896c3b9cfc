/* SPDX-License-Identifier: GPL-2.0-only */
/* Between the C shim of the hostile module and src/ffi.rs. */
#ifndef DD_HOSTILE_H
#define DD_HOSTILE_H

#include <linux/types.h>

/* Implemented in Rust: sends until nothing is left to send. May sleep. */
void dd_hostile_work(unsigned int worker);

/* crew.c */
int dd_crew_start(void);
void dd_crew_stop(void);
bool dd_crew_leaves(void);
void *dd_arena_map(u64 base, u64 size);
void dd_arena_unmap(void *arena);
long dd_hypercall(unsigned long number, const unsigned long *arguments);
void dd_tally_add(unsigned int which, unsigned long amount);

#endif
