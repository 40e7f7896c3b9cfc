/* SPDX-License-Identifier: GPL-2.0-only */
/* Between the C shim of the hostile module and src/ffi.rs. */
#ifndef DD_HOSTILE_H
#define DD_HOSTILE_H

#include <linux/types.h>

/* Implemented in Rust: sends until nothing is left to send. May sleep. */
void dd_hostile_work(unsigned int worker);

/* workers.c */
int dd_workers_start(void);
void dd_workers_stop(void);
bool dd_worker_must_end(void);
void *dd_arena_map(u64 base, u64 size);
void dd_arena_unmap(void *arena);
long dd_hypercall(unsigned long number, const unsigned long *arguments);
void dd_tally_add(unsigned int which, unsigned long amount);

#endif
