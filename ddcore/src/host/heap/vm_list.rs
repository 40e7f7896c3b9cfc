// SPDX-License-Identifier: GPL-2.0-only

//! The VMs of a host.

use crate::host::room::{self, Parts, VM_VICTIMS};
use crate::partition::{Entity, Victims};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The VMs, and memory for computing entitlements.
pub struct VmList<V> {
    /// The VMs, in the order in which they were added, which is that of their numbers.
    vms: Vec<Arc<V>>,
    entities: Vec<Entity>,
    victims: Victims<VM_VICTIMS>,
}

impl<V> VmList<V> {
    pub(super) const fn new() -> Self {
        Self {
            vms: Vec::new(),
            entities: Vec::new(),
            victims: Victims::new(),
        }
    }

    /// Adds a VM.
    pub(super) fn add(&mut self, vm: V) -> Arc<V> {
        let vm = Arc::new(vm);
        self.vms.push(vm.clone());
        self.entities.push(Entity::default());
        self.victims.clear();
        vm
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
            victims: &mut self.victims,
        }
    }
}
