// SPDX-License-Identifier: GPL-2.0-only

//! The memory tier: its accounting and its clock. [`page`] is a page of its memory, [`stock`] has
//! pages for the next puts.

pub(crate) mod page;
pub(crate) mod stock;

use crate::number::Number;
use core::ops::Deref;
use kernel::time::{Instant, Monotonic};

/// The accounting of the memory tier.
pub(crate) struct Tier {
    accounts: ddcore::host::tier::Tier<Number>,
    /// Time at which the clock of the limit started.
    born: Instant<Monotonic>,
}

impl Tier {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            accounts: ddcore::host::tier::Tier::new(capacity),
            born: Instant::now(),
        }
    }

    /// Returns the milliseconds since the clock started. The limit rises with this time.
    pub(crate) fn milliseconds(&self) -> u64 {
        self.born.elapsed().as_millis().max(0) as u64
    }
}

impl Deref for Tier {
    type Target = ddcore::host::tier::Tier<Number>;

    fn deref(&self) -> &Self::Target {
        &self.accounts
    }
}
