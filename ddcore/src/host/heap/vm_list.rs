// SPDX-License-Identifier: GPL-2.0

//! The VMs of a host.

use crate::host::room::{self, Parts};
use crate::partition::Entity;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The VMs, and memory for computing entitlements.
pub struct VmList<V> {
    /// The VMs, in the order in which they were added.
    vms: Vec<Arc<V>>,
    entities: Vec<Entity>,
    pools: Vec<Entity>,
}

impl<V> VmList<V> {
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

    /// Allocates memory for the entitlements of `pools` pools for each VM.
    pub fn make_room(&mut self, pools: usize) {
        let pools = pools.max(self.pools.len());
        self.pools.resize(pools, Entity::default());
    }

    /// Returns the VMs.
    pub fn vms(&self) -> &[Arc<V>] {
        &self.vms
    }

    /// Returns the VMs for changes.
    pub fn vms_mut(&mut self) -> &mut [Arc<V>] {
        &mut self.vms
    }
}

impl<V: room::Vm> room::VmList for VmList<V> {
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
