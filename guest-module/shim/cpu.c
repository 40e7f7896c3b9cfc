// SPDX-License-Identifier: GPL-2.0-only
/* The CPU that the task runs on: interrupts, preemption, scheduling. */

#include <linux/delay.h>
#include <linux/irqflags.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include "guest.h"

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

void dd_cond_resched(void)
{
	cond_resched();
}

/*
 * Returns whether the task may sleep and another task waits for the CPU.
 * io_uring and RWF_NOWAIT set PF_MEMALLOC_NOIO during readahead that must not
 * sleep.
 */
bool dd_should_sleep(void)
{
	return !(current->flags & PF_MEMALLOC_NOIO) && !single_task_running();
}

void dd_sleep_us(unsigned int us)
{
	usleep_range(us, us + min(us / 4, 50u));
}

bool dd_killed(void)
{
	return fatal_signal_pending(current);
}

bool dd_in_task(void)
{
	return in_task();
}

unsigned long dd_current(void)
{
	return (unsigned long)current;
}
