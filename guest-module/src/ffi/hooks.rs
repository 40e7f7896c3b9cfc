// SPDX-License-Identifier: GPL-2.0-only

//! Attaching to functions of the kernel (`shim/hooks.c`, `shim/settle.c`).

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

/// Reason why the hooks are not attached.
pub(crate) struct HookFailure {
    pub(crate) error: Error,
    /// The function to which a hook could not be attached.
    pub(crate) function: &'static CStr,
    /// The reason, in words for an administrator.
    pub(crate) why: &'static CStr,
}

/// Attaches all hooks, or none. Sleeps.
pub(crate) fn install() -> Result<(), HookFailure> {
    let mut failure = RawHookFailure {
        symbol: c"?".as_char_ptr(),
        why: c"?".as_char_ptr(),
    };
    // SAFETY: Only the worker calls this, which does not run twice at a time.
    kernel::error::to_result(unsafe { dd_hooks_install(&mut failure) }).map_err(|error| {
        HookFailure {
            error,
            // SAFETY: The pointer is a string constant of the shim, or the one above.
            function: unsafe { CStr::from_char_ptr(failure.symbol) },
            // SAFETY: As above.
            why: unsafe { CStr::from_char_ptr(failure.why) },
        }
    })
}

/// Detaches the hooks and waits until no diverted call is left. Sleeps.
pub(crate) fn remove() {
    // SAFETY: As for `install`.
    unsafe { dd_hooks_remove() };
}

/// Waits until all changes of files have ended that began before the hooks were attached. Fails
/// with `EBUSY` if one takes too long. Sleeps.
pub(crate) fn settle() -> Result {
    // SAFETY: As for `install`.
    kernel::error::to_result(unsafe { dd_settle() })
}
