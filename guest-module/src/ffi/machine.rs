// SPDX-License-Identifier: GPL-2.0-only

//! Properties of the machine, and hypercalls (`shim/machine.c`).

use kernel::ffi::{c_long, c_ulong};

extern "C" {
    fn dd_machine_is_kvm_guest() -> bool;
    fn dd_machine_is_confidential() -> bool;
    fn dd_hypercall(nr: c_ulong, address: c_ulong) -> c_long;
    fn dd_physical(address: *const u8) -> c_ulong;
    fn dd_memory_bytes() -> u64;
}

/// Returns a random number.
pub(crate) fn random() -> u64 {
    // SAFETY: The function may be called in any context.
    unsafe { kernel::bindings::get_random_u64() }
}

/// Makes a hypercall with the request at `block` and returns its raw result.
///
/// # Safety
///
/// `block` must be a request page followed by an answer page, physically contiguous, that no other
/// task uses during the call. Frames that the request names must belong to the caller.
pub(crate) unsafe fn hypercall(number: u64, block: *const u8) -> i64 {
    // SAFETY: By the function's contract; the address is in the kernel's direct mapping.
    unsafe { dd_hypercall(number as c_ulong, dd_physical(block)) as i64 }
}

/// Returns whether the machine is a guest of KVM.
pub(crate) fn is_kvm_guest() -> bool {
    // SAFETY: Reads feature bits.
    unsafe { dd_machine_is_kvm_guest() }
}

/// Returns whether the host must not see the machine's memory.
pub(crate) fn is_confidential() -> bool {
    // SAFETY: Reads feature bits.
    unsafe { dd_machine_is_confidential() }
}

/// Returns the size of the machine's memory in bytes.
pub(crate) fn memory_bytes() -> u64 {
    // SAFETY: Reads statistics.
    unsafe { dd_memory_bytes() }
}
