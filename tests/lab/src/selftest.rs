// SPDX-License-Identifier: GPL-2.0-only

//! The lab's own scenarios.

mod boot;
mod watchdog;

pub use boot::BOOT;
pub use watchdog::WATCHDOG;
