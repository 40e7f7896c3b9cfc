// SPDX-License-Identifier: GPL-2.0-only

//! Standing of a VM among its peers: the number of pages to which it is entitled, and the number
//! that it may have, computed without reading the state of other VMs.
//!
//! Each VM publishes its weight, the pages that it lends, and the weight with which it takes part
//! in the pages that others lend. The tier keeps the sums over all VMs. Processors read and change
//! them without a lock. A VM publishes its weight whenever the weight changes, and the other values
//! when it computes its gauges or needs room. The choice of victims, which examines every VM,
//! publishes these values for all of them, so that an idle VM lends its unused pages, too.

use super::room::Vm;
use super::session::Session;
use super::tier::Tier;
use crate::number::Number;
use crate::partition::{self, part, Entity, Sums};

/// The published values of a VM, or the sums over all VMs.
#[derive(Debug)]
pub struct Standing<N> {
    weight: N,
    lent: N,
    overused_weight: N,
    /// Pages that tasks are about to evict from the VM. The sums have none.
    claimed: N,
}

impl<N: Number> Standing<N> {
    /// Creates the standing of a VM that has published nothing.
    pub fn new() -> Self {
        Self {
            weight: N::new(0),
            lent: N::new(0),
            overused_weight: N::new(0),
            claimed: N::new(0),
        }
    }

    /// Returns the number of pages that tasks are about to evict. Some of them may have been
    /// evicted already.
    pub(super) fn claimed(&self) -> u64 {
        self.claimed.load()
    }

    /// Notes that the caller is about to evict up to `pages` pages.
    pub(super) fn claim(&self, pages: u64) {
        self.claimed.add(pages);
    }

    /// Ends a claim.
    pub(super) fn unclaim(&self, pages: u64) {
        self.claimed.subtract(pages);
    }

    /// Returns the published weight, or the sum of all weights.
    pub fn weight(&self) -> u64 {
        self.weight.load()
    }

    /// Publishes a weight. `weight` returns the current one, which other tasks may change at any
    /// time. If several tasks publish at the same time, the last one to replace the published
    /// weight sees the weights that the others have set.
    pub fn publish_weight(&self, all: &Self, weight: impl Fn() -> u64) {
        loop {
            publish(&self.weight, &all.weight, weight());
            if self.weight.load() == weight() {
                break;
            }
        }
    }

    fn publish_sums(&self, all: &Self, sums: Sums) {
        let lent = (&self.lent, &all.lent, sums.lent);
        let weight = (
            &self.overused_weight,
            &all.overused_weight,
            sums.overused_weight,
        );
        for (own, all, value) in [lent, weight] {
            // Most calls change nothing. A value that another task publishes at the same time is
            // equally recent.
            if own.load() != value {
                publish(own, all, value);
            }
        }
    }

    fn sums(&self) -> Sums {
        Sums {
            lent: self.lent.load(),
            overused_weight: self.overused_weight.load(),
        }
    }
}

impl<N: Number> Default for Standing<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Replaces the contribution of a VM to a sum. The new value is added before the old one is
/// subtracted, so that the sum is never too small, and thus never below zero.
fn publish<N: Number>(own: &N, sum: &N, value: u64) {
    sum.add(value);
    let old = own.swap(value);
    sum.subtract(old);
}

/// Publishes the weight of a VM. The owner calls this after a session of the VM has begun or ended,
/// and after its weight was changed.
pub fn settle<V: Vm>(tier: &Tier<<V::Session as Session>::Number>, vm: &V) {
    vm.standing().publish_weight(tier.standing(), || {
        vm.session().map_or(0, |_| vm.share().into())
    });
    let used = vm.session().map_or(0, |session| session.used());
    Whole::of(tier).refresh(vm, used);
}

/// Returns the number of pages to which a VM is entitled.
pub fn entitlement<V: Vm>(tier: &Tier<<V::Session as Session>::Number>, vm: &V) -> u64 {
    Whole::of(tier).entitlement(vm)
}

/// The pages that the VMs of a tier divide.
pub(super) struct Whole<'a, N> {
    all: &'a Standing<N>,
    pages: u64,
    weight: u64,
    batch: u64,
}

impl<'a, N: Number> Whole<'a, N> {
    pub(super) fn of(tier: &'a Tier<N>) -> Self {
        Self {
            all: tier.standing(),
            pages: tier.limit(),
            weight: tier.standing().weight(),
            batch: tier.batch(),
        }
    }

    fn entitlement<V: Vm<Session: Session<Number = N>>>(&self, vm: &V) -> u64 {
        part(self.pages, vm.standing().weight(), self.weight)
    }

    /// Publishes the pages that a VM lends if it has `used` pages. Returns its weight, entitlement
    /// and usage.
    pub(super) fn refresh<V: Vm<Session: Session<Number = N>>>(&self, vm: &V, used: u64) -> Entity {
        let entity = Entity {
            weight: vm.standing().weight().min(u32::MAX.into()) as u32,
            entitlement: self.entitlement(vm),
            used,
        };
        let sums = Sums::of_one(&entity, self.batch);
        vm.standing().publish_sums(self.all, sums);
        entity
    }
}

/// Returns the number of pages that a VM may have before Algorithm 1 chooses it rather than a peer.
/// `used` is the number of pages that it has.
pub(super) fn capacity<V: Vm>(
    tier: &Tier<<V::Session as Session>::Number>,
    vm: &V,
    used: u64,
) -> u64 {
    let own = Whole::of(tier).refresh(vm, used);
    let peers = tier.standing().sums().without(&vm.standing().sums());
    partition::capacity(&own, &peers)
}
