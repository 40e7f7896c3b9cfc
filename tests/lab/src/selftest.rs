// SPDX-License-Identifier: GPL-2.0

//! The lab's own scenarios.

mod boot;
mod watchdog;

use crate::Scenario;

/// All of them, in the order in which they make sense.
#[must_use]
pub fn all() -> Vec<Scenario> {
    vec![boot::BOOT, watchdog::WATCHDOG]
}
