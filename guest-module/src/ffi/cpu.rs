// SPDX-License-Identifier: GPL-2.0-only

//! The CPU that the task runs on: interrupts, preemption, scheduling (`shim/cpu.c`).

use core::marker::PhantomData;
use kernel::ffi::{c_uint, c_ulong};

extern "C" {
    fn dd_irq_save() -> c_ulong;
    fn dd_irq_restore(flags: c_ulong);
    fn dd_preemption_off();
    fn dd_preemption_on();
    fn dd_cond_resched();
    fn dd_should_sleep() -> bool;
    fn dd_killed() -> bool;
    fn dd_sleep_us(us: c_uint);
    fn dd_in_task() -> bool;
    fn dd_current() -> c_ulong;
}

/// Disables interrupts on this CPU while the value lives.
///
/// # Invariants
///
/// Interrupts are disabled from construction to drop; the value stays on its CPU.
pub(crate) struct InterruptsOff(c_ulong, PhantomData<*mut ()>);

impl InterruptsOff {
    /// Disables interrupts. They may be disabled already.
    pub(crate) fn new() -> Self {
        // SAFETY: Interrupts may be disabled in any context; `drop` restores the state before.
        Self(unsafe { dd_irq_save() }, PhantomData)
    }
}

impl Drop for InterruptsOff {
    fn drop(&mut self) {
        // SAFETY: The flags are those that `new` saved on this CPU; values nest as their scopes do.
        unsafe { dd_irq_restore(self.0) };
    }
}

/// Disables preemption while the value lives, so that the task stays on its CPU and no other task
/// runs there.
///
/// # Invariants
///
/// Preemption is disabled from construction to drop.
pub(crate) struct PreemptionOff(PhantomData<*mut ()>);

impl PreemptionOff {
    /// Disables preemption. Calls nest.
    pub(crate) fn new() -> Self {
        // SAFETY: Preemption may be disabled in any context; `drop` enables it again.
        unsafe { dd_preemption_off() };
        Self(PhantomData)
    }
}

impl Drop for PreemptionOff {
    fn drop(&mut self) {
        // SAFETY: `new` disabled preemption in this task.
        unsafe { dd_preemption_on() };
    }
}

/// Lets other tasks run if they should, between the steps of a long operation. Process context
/// without spinlocks.
pub(crate) fn cond_resched() {
    // SAFETY: The function's contract demands a context that may sleep.
    unsafe { dd_cond_resched() };
}

/// Returns whether the task should sleep instead of occupying the CPU: it may sleep, and another
/// task waits for the CPU. Preemption must be off.
pub(crate) fn should_sleep() -> bool {
    // SAFETY: Reads flags of the running task, and the number of runnable tasks of this CPU.
    unsafe { dd_should_sleep() }
}

/// Returns whether the running task is being killed.
pub(crate) fn is_killed() -> bool {
    // SAFETY: Reads the signals of the running task.
    unsafe { dd_killed() }
}

/// Sleeps for `us` microseconds, or a little longer. Process context without spinlocks.
pub(crate) fn sleep_us(us: u32) {
    // SAFETY: The function's contract demands a context that may sleep.
    unsafe { dd_sleep_us(us) };
}

/// Returns whether the CPU runs a task rather than an interrupt.
pub(crate) fn in_task() -> bool {
    // SAFETY: Reads the preemption counter.
    unsafe { dd_in_task() }
}

/// Returns the address of the running task, which is not 0. It is never dereferenced.
pub(crate) fn current_task() -> usize {
    // SAFETY: Reads a per-CPU variable.
    unsafe { dd_current() as usize }
}
