// SPDX-License-Identifier: GPL-2.0

//! The VMs of a host.

use crate::host::room::{self, Parts};
use crate::partition::Entity;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The VMs, and memory for computing entitlements.
pub struct Roster<V> {
    /// The VMs, in the order in which they were added.
    vms: Vec<Arc<V>>,
    entities: Vec<Entity>,
    pools: Vec<Entity>,
}

impl<V> Roster<V> {
    pub(super) const fn new() -> Self {
        Self {
            vms: Vec::new(),
            entities: Vec::new(),
            pools: Vec::new(),
        }
    }

    /// Adds a VM.
    pub fn add(&mut self, vm: V) -> Arc<V> {
        let vm = Arc::new(vm);
        self.vms.push(vm.clone());
        self.entities.push(Entity::default());
        vm
    }

    /// Makes sure that VMs may have so many pools.
    pub fn make_room(&mut self, pools: usize) {
        let pools = pools.max(self.pools.len());
        self.pools.resize(pools, Entity::default());
    }

    /// The VMs.
    pub fn vms(&self) -> &[Arc<V>] {
        &self.vms
    }

    /// The VMs, to be changed.
    pub fn vms_mut(&mut self) -> &mut [Arc<V>] {
        &mut self.vms
    }
}

impl<V: room::Vm> room::Roster for Roster<V> {
    type Vm = V;
    type Ref = Arc<V>;

    fn parts(&mut self) -> Parts<'_, Arc<V>> {
        Parts {
            vms: &self.vms,
            entities: &mut self.entities,
            pools: &mut self.pools,
        }
    }
}
