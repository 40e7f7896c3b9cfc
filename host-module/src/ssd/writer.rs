// SPDX-License-Identifier: GPL-2.0-only

//! Sessions and their pools as writers of devices: their shares of the write budgets.

use crate::number::Number;
use crate::ssd::device::Device;
use crate::ssd::Ssd;
use ddcore::ssd::budget::{self, Share, Spending};
use ddcore::ssd::place::MAX_DEVICES;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};

/// What a session, or a pool of a session, has spent of the write budget of each device.
pub(crate) struct Spent([Spending<Number>; MAX_DEVICES]);

impl Spent {
    /// Creates the state of a writer that has written nothing.
    pub(crate) fn new() -> Self {
        Self(core::array::from_fn(|_| Spending::new()))
    }
}

/// A session as a writer.
pub(crate) struct Writer {
    /// The weight of its VM in the SSD tier.
    weight: Atomic<u32>,
    /// The sum of the weights of its pools in the SSD tier.
    pools: Atomic<u64>,
    spent: Spent,
}

impl Writer {
    /// Creates a writer without weight.
    pub(crate) fn new() -> Self {
        Self {
            weight: Atomic::new(0),
            pools: Atomic::new(0),
            spent: Spent::new(),
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

    /// Returns the sum of the weights of the session's pools in the SSD tier.
    pub(crate) fn pools(&self) -> u64 {
        self.pools.load(Relaxed)
    }

    /// Sets the sum of the weights of the session's pools in the SSD tier.
    pub(crate) fn set_pools(&self, weights: u64) {
        self.pools.store(weights, Relaxed);
    }
}

/// A pool as a writer.
#[derive(Clone, Copy)]
pub(crate) struct PoolWriter<'a> {
    /// The writer of its session.
    pub(crate) session: &'a Writer,
    /// Its weight in the SSD tier.
    pub(crate) weight: u32,
    /// What it has spent.
    pub(crate) spent: &'a Spent,
}

impl PoolWriter<'_> {
    /// Returns whether `pages` may be written to a device now, and counts them.
    pub(crate) fn spend(&self, ssd: &Ssd, device: &Device, pages: usize) -> bool {
        let vm = budget::Writer {
            spending: &self.session.spent.0[device.number],
            share: Share {
                weight: self.session.weight().into(),
                all: ssd.standing().weight(),
            },
        };
        let container = budget::Writer {
            spending: &self.spent.0[device.number],
            share: Share {
                weight: self.weight.into(),
                all: self.session.pools(),
            },
        };
        let now = ssd.nanoseconds();
        let may = device.budget.spend(vm, container, pages as u64, now);
        if !may {
            device.counts.over_budget.add(pages as u64);
        }
        may
    }
}
