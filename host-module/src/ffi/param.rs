// SPDX-License-Identifier: GPL-2.0-only

//! Module parameters that sysfs shows, which those of the `module!` macro are not (`shim/param.c`).

extern "C" {
    fn dd_param_max_vms() -> u32;
    fn dd_param_default_weight() -> u32;
}

/// Returns the module parameters `max_vms` and `default_weight`.
pub(crate) fn admission() -> (u32, u32) {
    // SAFETY: Both read a number that does not change after the module was loaded.
    unsafe { (dd_param_max_vms(), dd_param_default_weight()) }
}
