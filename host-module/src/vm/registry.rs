// SPDX-License-Identifier: GPL-2.0-only

//! All VMs. They are found by `struct kvm` without a lock, and listed under a lock.

use crate::ffi::kvm::CallingVm;
use crate::ffi::table::VmTable;
use crate::memory::gfp_nowarn;
use crate::ssd::Ssd;
use crate::tier::Tier;
use crate::vm::Vm;
use ddcore::host::room::{Parts, VM_VICTIMS};
use ddcore::partition::{Entity, Victims};
use ddcore::roll::next;
use kernel::prelude::*;
use kernel::sync::lock::{mutex::MutexBackend, Guard};
use kernel::sync::{new_mutex, Arc, Mutex};

/// Rules for registration: the maximum number of VMs, and their initial weight.
#[derive(Clone, Copy)]
pub(crate) struct Admission {
    /// Maximum number of registered VMs.
    pub(crate) max_vms: u32,
    /// Weight of a VM until the administrator sets one.
    pub(crate) weight: u32,
}

/// The VMs that have registered, until KVM destroys them.
#[pin_data]
pub(crate) struct Registry {
    admission: Admission,
    tier: Arc<Tier>,
    ssd: Arc<Ssd>,
    #[pin]
    table: VmTable<Vm>,
    /// The number of the VM that was added last. Only the holder of this lock adds VMs.
    #[pin]
    last: Mutex<u32>,
    #[pin]
    vm_list: Mutex<VmList>,
}

impl Registry {
    pub(crate) fn new(admission: Admission, tier: Arc<Tier>, ssd: Arc<Ssd>) -> impl PinInit<Self> {
        pin_init!(Self {
            admission,
            tier,
            ssd,
            table <- VmTable::new(),
            last <- new_mutex!(0, "Registry::last"),
            vm_list <- new_mutex!(VmList::new(), "Registry::vm_list"),
        })
    }

    pub(crate) fn table(&self) -> &VmTable<Vm> {
        &self.table
    }

    /// Locks the list. Its holder is the only task that chooses victims. It neither allocates nor
    /// waits for a task that does, because memory reclaim takes this lock.
    pub(crate) fn lock(&self) -> Guard<'_, VmList, MutexBackend> {
        self.vm_list.lock()
    }

    /// Locks the list, unless another task holds it.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, VmList, MutexBackend>> {
        self.vm_list.try_lock()
    }

    /// Returns the caller's VM, which is created if it is not registered yet. The error is `ENOSPC`
    /// if the maximum number of VMs is registered.
    pub(crate) fn join<'a>(&self, guest: &'a CallingVm<'_>) -> Result<&'a Vm> {
        if let Some(vm) = self.table.find(guest) {
            return Ok(vm);
        }
        let mut last = self.last.lock();
        // Another vCPU may have added it in the meantime.
        if self.table.find(guest).is_none() {
            let number = self.admit(*last)?;
            let room = self.room()?;
            let vm = Vm::new(
                number,
                self.admission.weight,
                self.tier.clone(),
                self.ssd.clone(),
            )?;
            self.table.insert(guest, vm.clone())?;
            // The VM cannot be destroyed before it is on the list, because one of its calls is in
            // progress.
            let rest = self.vm_list.lock().add(vm, room);
            drop(rest);
            *last = number;
        }
        self.table.find(guest).ok_or(ENOENT)
    }

    /// Returns a number for a new VM. The error is `ENOSPC` if the maximum number of VMs is
    /// registered.
    fn admit(&self, last: u32) -> Result<u32> {
        let vm_list = self.vm_list.lock();
        if vm_list.vms.len() >= self.admission.max_vms as usize {
            return Err(ENOSPC);
        }
        let taken = vm_list.vms.iter().map(|vm| vm.number);
        next(last, taken).ok_or(ENOSPC)
    }

    /// Returns memory for a larger list if the list has no room for another VM. Only the holder of
    /// `last` adds to the list.
    fn room(&self) -> Result<Option<Room>> {
        let vm_list = self.vm_list.lock();
        let (vms, capacity) = (vm_list.vms.len(), vm_list.vms.capacity());
        drop(vm_list);
        if vms < capacity {
            return Ok(None);
        }
        Room::new((2 * vms).max(MIN_VMS)).map(Some)
    }
}

/// Capacity of the smallest list of VMs.
const MIN_VMS: usize = 16;

/// The memory of a list of VMs. It is allocated without the lock of the list and exchanged under
/// it.
struct Room {
    vms: KVec<Arc<Vm>>,
    entities: KVec<Entity>,
}

impl Room {
    fn new(vms: usize) -> Result<Self> {
        Ok(Self {
            vms: KVec::with_capacity(vms, gfp_nowarn())?,
            entities: KVec::from_elem(Entity::default(), vms, gfp_nowarn())?,
        })
    }
}

/// The list of VMs, and memory allocated beforehand for computing entitlements.
pub(crate) struct VmList {
    vms: KVec<Arc<Vm>>,
    /// One entity for each VM for which the list has room.
    entities: KVec<Entity>,
    /// Victims of the next evictions.
    victims: Victims<VM_VICTIMS>,
}

impl ddcore::host::room::VmList for VmList {
    type Vm = Vm;
    type Ref = Arc<Vm>;

    fn parts(&mut self) -> Parts<'_, Arc<Vm>> {
        let count = self.vms.len().min(self.entities.len());
        Parts {
            vms: &self.vms,
            entities: &mut self.entities[..count],
            victims: &mut self.victims,
        }
    }
}

impl VmList {
    const fn new() -> Self {
        Self {
            vms: KVec::new(),
            entities: KVec::new(),
            victims: Victims::new(),
        }
    }

    /// Puts a VM on the list. Returns memory that is to be freed without the lock.
    fn add(&mut self, vm: Arc<Vm>, mut room: Option<Room>) -> Option<Room> {
        if let Some(room) = &mut room {
            core::mem::swap(&mut self.vms, &mut room.vms);
            for vm in room.vms.drain_all() {
                // The new memory is larger than the old one.
                let _ = self.vms.push_within_capacity(vm);
            }
            core::mem::swap(&mut self.entities, &mut room.entities);
        }
        // The list is ordered by number, and numbers may wrap around.
        let place = self.vms.partition_point(|other| other.number < vm.number);
        let _ = self.vms.insert_within_capacity(place, vm);
        self.victims.clear();
        room
    }

    /// Removes a VM from the list.
    pub(crate) fn remove(&mut self, vm: &Arc<Vm>) {
        self.vms.retain(|other| !Arc::ptr_eq(other, vm));
        self.victims.clear();
    }

    /// Returns the VMs, ordered by number.
    pub(crate) fn vms(&self) -> &[Arc<Vm>] {
        &self.vms
    }
}
