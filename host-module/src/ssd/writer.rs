// SPDX-License-Identifier: GPL-2.0-only

//! Sessions and their pools as writers of devices: their shares of the write budgets.

use crate::number::Number;
use crate::ssd::device::Device;
use crate::ssd::Ssd;
use ddcore::ssd::budget::{self, Share, Spending};
use ddcore::ssd::place::MAX_DEVICES;
use kernel::sync::atomic::{
    ordering::{Full, Relaxed},
    Atomic,
};
use kernel::sync::Arc;

/// What a session, or a pool of a session, has spent of the write budget of each device.
pub(crate) struct Spent([Spending<Number>; MAX_DEVICES]);

impl Spent {
    /// Creates the state of a writer that has written nothing.
    pub(crate) fn new() -> Self {
        Self(core::array::from_fn(|_| Spending::new()))
    }

    /// Forgets what was spent, because another writer follows.
    pub(crate) fn reset(&self) {
        self.0.iter().for_each(Spending::reset);
    }
}

/// A session as a writer.
pub(crate) struct Writer {
    /// The weight of its VM in the SSD tier.
    weight: Atomic<u32>,
    /// The sum of the weights of its pools in the SSD tier.
    pools: Atomic<u64>,
    /// What the VM has spent, in earlier sessions as well. Otherwise a VM could spend more than its
    /// share by registering again.
    spent: Arc<Spent>,
}

impl Writer {
    /// Creates a writer without weight, of a VM that has spent `spent`.
    pub(crate) fn new(spent: Arc<Spent>) -> Self {
        Self {
            weight: Atomic::new(0),
            pools: Atomic::new(0),
            spent,
        }
    }

    /// Returns the weight of the session's VM in the SSD tier.
    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    /// Sets the weight of the session's VM in the SSD tier. The store is fully ordered, so that a
    /// caller that then reads the weight of the VM sees a change that overlaps with the store.
    pub(crate) fn set_weight(&self, weight: u32) {
        self.weight.xchg(weight, Full);
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
    /// Counts pages that are written to a device and returns their cost, or `None` if they may not
    /// be written now.
    pub(crate) fn spend(&self, ssd: &Ssd, device: &Device, pages: usize) -> Option<u64> {
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
        let cost = device.budget.spend(vm, container, pages as u64, now);
        if cost.is_none() {
            device.counts.over_budget.add(pages as u64);
        }
        cost
    }
}
