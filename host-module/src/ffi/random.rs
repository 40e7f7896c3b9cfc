// SPDX-License-Identifier: GPL-2.0-only

//! Random numbers of the kernel.

use kernel::bindings;

/// Returns a random number that is not zero.
pub(crate) fn number() -> u64 {
    loop {
        // SAFETY: May be called from anywhere.
        let number = unsafe { bindings::get_random_u64() };
        if number != 0 {
            return number;
        }
    }
}
