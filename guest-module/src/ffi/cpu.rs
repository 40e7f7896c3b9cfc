// SPDX-License-Identifier: GPL-2.0

//! The CPU the task runs on: interrupts, preemption, the running task (`shim/cpu.c`).

use core::marker::PhantomData;
use kernel::ffi::c_ulong;

extern "C" {
    fn dd_irq_save() -> c_ulong;
    fn dd_irq_restore(flags: c_ulong);
    fn dd_preemption_off();
    fn dd_preemption_on();
    fn dd_cond_resched();
    fn dd_in_task() -> bool;
    fn dd_current() -> c_ulong;
}

/// Proof that interrupts are off on this CPU.
///
/// # Invariants
///
/// Interrupts are off from construction to drop; the value stays on its CPU.
pub(crate) struct InterruptsOff(c_ulong, PhantomData<*mut ()>);

impl InterruptsOff {
    /// Switches interrupts off, or notes that they are.
    pub(crate) fn new() -> Self {
        // SAFETY: Always allowed; `drop` restores what was.
        Self(unsafe { dd_irq_save() }, PhantomData)
    }
}

impl Drop for InterruptsOff {
    fn drop(&mut self) {
        // SAFETY: The flags are those `new` saved on this CPU; guards nest as scopes do.
        unsafe { dd_irq_restore(self.0) };
    }
}

/// Proof that the running task stays on this CPU and no other task runs on it.
///
/// # Invariants
///
/// Preemption is off from construction to drop.
pub(crate) struct PreemptionOff(PhantomData<*mut ()>);

impl PreemptionOff {
    /// Switches preemption off; calls nest.
    pub(crate) fn new() -> Self {
        // SAFETY: Always allowed; `drop` restores what was.
        unsafe { dd_preemption_off() };
        Self(PhantomData)
    }
}

impl Drop for PreemptionOff {
    fn drop(&mut self) {
        // SAFETY: `new` switched it off in this task.
        unsafe { dd_preemption_on() };
    }
}

/// A point where the scheduler may act, between the steps of a long operation. Process context,
/// no locks.
pub(crate) fn cond_resched() {
    // SAFETY: By the context that is asked for.
    unsafe { dd_cond_resched() };
}

/// Whether we run on behalf of a task rather than in an interrupt.
pub(crate) fn in_task() -> bool {
    // SAFETY: Reads the preemption counter.
    unsafe { dd_in_task() }
}

/// The running task as a number: compared, never followed. Never zero.
pub(crate) fn current_task() -> usize {
    // SAFETY: Reads a per-CPU variable.
    unsafe { dd_current() as usize }
}
