// SPDX-License-Identifier: GPL-2.0-only
/*
 * The parts that Rust cannot express: threads bound to their processors,
 * hypercalls, memory that the kernel does not use, and results as module
 * parameters.
 */

#include <linux/cpu.h>
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/kvm_para.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include "hostile.h"

/* In the order of `Count` in src/tally.rs. */
enum {
	DD_SENT, DD_OK, DD_STALE, DD_RETRY, DD_INVALID, DD_UNSUPPORTED, DD_NO_MEMORY,
	DD_NO_POOL, DD_LIMIT, DD_DENIED, DD_UNKNOWN, DD_STORED, DD_GIVEN, DD_FOREIGN,
	DD_LET_IN, DD_MOVED, DD_COUNTS,
};

static unsigned long dd_tally[DD_COUNTS];
static unsigned long dd_running;

#define DD_RESULT(name, which) module_param_named(name, dd_tally[which], ulong, 0444)

DD_RESULT(sent, DD_SENT);
DD_RESULT(ok, DD_OK);
DD_RESULT(stale, DD_STALE);
DD_RESULT(retry, DD_RETRY);
DD_RESULT(invalid, DD_INVALID);
DD_RESULT(unsupported, DD_UNSUPPORTED);
DD_RESULT(no_memory, DD_NO_MEMORY);
DD_RESULT(no_pool, DD_NO_POOL);
DD_RESULT(limit, DD_LIMIT);
DD_RESULT(denied, DD_DENIED);
/* Not a documented status. */
DD_RESULT(unknown, DD_UNKNOWN);
/* Pages. */
DD_RESULT(stored, DD_STORED);
DD_RESULT(given, DD_GIVEN);
/* Pages given back with other content than was put. */
DD_RESULT(foreign, DD_FOREIGN);
/*
 * Requests that were executed although their session or number cannot be valid.
 */
DD_RESULT(let_in, DD_LET_IN);
/* Pages from and to memory that is plugged in and unplugged. */
DD_RESULT(moved, DD_MOVED);
/* Number of threads that are not done yet. */
module_param_named(running, dd_running, ulong, 0444);

static DEFINE_PER_CPU(struct task_struct *, dd_worker);

void dd_tally_add(unsigned int which, unsigned long amount)
{
	if (which < DD_COUNTS)
		__atomic_fetch_add(&dd_tally[which], amount, __ATOMIC_RELAXED);
}

static int dd_workers_run(void *number)
{
	dd_hostile_work((unsigned long)number);
	__atomic_fetch_sub(&dd_running, 1, __ATOMIC_RELEASE);
	/* The task that started this one waits for it. */
	for (;;) {
		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* Starts one worker for each online processor. */
int dd_workers_start(void)
{
	unsigned int cpu;

	cpus_read_lock();
	for_each_online_cpu(cpu) {
		struct task_struct *worker;

		worker = kthread_create_on_cpu(dd_workers_run, (void *)(unsigned long)cpu, cpu,
					       "dd_hostile/%u");
		if (IS_ERR(worker)) {
			cpus_read_unlock();
			dd_workers_stop();
			return PTR_ERR(worker);
		}
		per_cpu(dd_worker, cpu) = worker;
		__atomic_fetch_add(&dd_running, 1, __ATOMIC_RELAXED);
	}
	for_each_online_cpu(cpu)
		wake_up_process(per_cpu(dd_worker, cpu));
	cpus_read_unlock();
	return 0;
}

void dd_workers_stop(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct task_struct *worker = per_cpu(dd_worker, cpu);

		if (worker)
			kthread_stop(worker);
		per_cpu(dd_worker, cpu) = NULL;
	}
}

/* Called by a worker between its bursts, to let other tasks run. */
bool dd_worker_must_end(void)
{
	cond_resched();
	return kthread_should_stop();
}

void *dd_arena_map(u64 base, u64 size)
{
	return memremap(base, size, MEMREMAP_WB);
}

void dd_arena_unmap(void *arena)
{
	memunmap(arena);
}

long dd_hypercall(unsigned long number, const unsigned long *arguments)
{
	return kvm_hypercall4(number, arguments[0], arguments[1], arguments[2], arguments[3]);
}
