// SPDX-License-Identifier: GPL-2.0-only

//! A session as a writer of devices: its share of their write budgets.

use crate::number::Number;
use crate::ssd::device::Device;
use crate::ssd::Ssd;
use ddcore::ssd::budget::{Share, Spending};
use ddcore::ssd::place::MAX_DEVICES;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};

/// A session as a writer.
pub(crate) struct Writer {
    /// The weight of its VM in the SSD tier.
    weight: Atomic<u32>,
    /// What it has spent of the write budget of each device.
    spent: [Spending<Number>; MAX_DEVICES],
}

impl Writer {
    /// Creates a writer without weight.
    pub(crate) fn new() -> Self {
        Self {
            weight: Atomic::new(0),
            spent: core::array::from_fn(|_| Spending::new()),
        }
    }

    /// Returns the weight of the session's VM in the SSD tier.
    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    /// Sets the weight of the session's VM in the SSD tier.
    pub(crate) fn set_weight(&self, weight: u32) {
        self.weight.store(weight, Relaxed);
    }

    /// Returns whether `pages` may be written to a device now, and counts them.
    pub(crate) fn spend(&self, ssd: &Ssd, device: &Device, pages: usize) -> bool {
        let share = Share {
            weight: self.weight().into(),
            all: ssd.standing().weight(),
        };
        let now = ssd.nanoseconds();
        let spent = &self.spent[device.number];
        let may = device.budget.spend(spent, share, pages as u64, now);
        if !may {
            device.counts.over_budget.add(pages as u64);
        }
        may
    }
}
