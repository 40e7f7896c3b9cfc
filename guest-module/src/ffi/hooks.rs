// SPDX-License-Identifier: GPL-2.0

//! Attaching to the kernel (`shim/hooks.c`, `shim/settle.c`).

use kernel::ffi::{c_char, c_int};
use kernel::prelude::*;

extern "C" {
    fn dd_hooks_install(failure: *mut RawHookFailure) -> c_int;
    fn dd_hooks_remove();
    fn dd_settle() -> c_int;
}

/// Mirrors `struct dd_hook_failure`.
#[repr(C)]
struct RawHookFailure {
    symbol: *const c_char,
    why: *const c_char,
}

/// Why we are not attached to the kernel.
pub(crate) struct HookFailure {
    pub(crate) error: Error,
    /// The function that did not fit.
    pub(crate) function: &'static CStr,
    /// In words for an administrator.
    pub(crate) why: &'static CStr,
}

/// Attaches to the kernel, all or nothing.
pub(crate) fn install() -> Result<(), HookFailure> {
    let mut failure = RawHookFailure {
        symbol: c"?".as_char_ptr(),
        why: c"?".as_char_ptr(),
    };
    // SAFETY: Called from the worker only, which does not overlap itself.
    kernel::error::to_result(unsafe { dd_hooks_install(&mut failure) }).map_err(|error| {
        HookFailure {
            error,
            // SAFETY: A string constant, the shim's or the one above.
            function: unsafe { CStr::from_char_ptr(failure.symbol) },
            // SAFETY: As above.
            why: unsafe { CStr::from_char_ptr(failure.why) },
        }
    })
}

/// Detaches from the kernel and waits until no diverted call is left. Sleeps.
pub(crate) fn remove() {
    // SAFETY: As for `install`.
    unsafe { dd_hooks_remove() };
}

/// Waits until changes of files that began before the hooks were attached are over; `EBUSY` if
/// they take too long. Sleeps.
pub(crate) fn settle() -> Result {
    // SAFETY: As for `install`.
    kernel::error::to_result(unsafe { dd_settle() })
}
