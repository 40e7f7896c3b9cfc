// SPDX-License-Identifier: GPL-2.0-only

//! Hypercalls from user mode, which are not allowed.

use std::arch::{asm, x86_64::__cpuid};

/// Makes a hypercall with all arguments zero. Returns its result.
pub(crate) fn vmcall(number: u64) -> i64 {
    let vendor = __cpuid(0);
    // The instruction of the other vendor would be invalid.
    let amd =
        vendor.ebx == u32::from_le_bytes(*b"Auth") || vendor.ebx == u32::from_le_bytes(*b"Hygo");
    let mut result = number;
    // SAFETY: The hypervisor changes no register but rax. The compiler reserves rbx and does not
    // accept it as an operand, so that it is exchanged with another register.
    unsafe {
        if amd {
            asm!(
                "xchg rbx, {zero}", "vmmcall", "xchg rbx, {zero}",
                zero = inout(reg) 0u64 => _, inout("rax") result,
                in("rcx") 0u64, in("rdx") 0u64, in("rsi") 0u64,
            );
        } else {
            asm!(
                "xchg rbx, {zero}", "vmcall", "xchg rbx, {zero}",
                zero = inout(reg) 0u64 => _, inout("rax") result,
                in("rcx") 0u64, in("rdx") 0u64, in("rsi") 0u64,
            );
        }
    }
    // A negative error number, or any value.
    result as i64
}
