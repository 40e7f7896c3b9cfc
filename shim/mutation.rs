// SPDX-License-Identifier: GPL-2.0

//! Breaking an invariant on purpose, see `shim/mutation.h`.

use kernel::prelude::CStr;

/// Returns whether the module was loaded with `mutation=NAME`. Any context.
#[cfg(dd_mutations)]
pub(crate) fn mutated(name: &CStr) -> bool {
    extern "C" {
        fn dd_mutated(name: *const kernel::ffi::c_char) -> bool;
    }
    // SAFETY: The name ends in a zero byte.
    unsafe { dd_mutated(name.as_ptr().cast()) }
}

/// Returns `false`: this build keeps all invariants.
#[cfg(not(dd_mutations))]
pub(crate) const fn mutated(_name: &CStr) -> bool {
    false
}
