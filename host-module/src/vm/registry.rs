// SPDX-License-Identifier: GPL-2.0-only

//! All VMs: found by `struct kvm` without a lock, listed under one.

use crate::ffi::kvm::CallingVm;
use crate::ffi::table::VmTable;
use crate::memory::quietly;
use crate::ssd::Ssd;
use crate::tier::Tier;
use crate::vm::session::Session;
use crate::vm::Vm;
use ddcore::host::room::{Parts, VM_VICTIMS};
use ddcore::partition::{Entity, Victims};
use ddcore::roll::next;
use kernel::prelude::*;
use kernel::sync::lock::{mutex::MutexBackend, Guard};
use kernel::sync::{new_mutex, Arc, Mutex};

/// Rules for registration: the most VMs, and their initial settings.
#[derive(Clone, Copy)]
pub(crate) struct Admission {
    /// Most VMs at a time.
    pub(crate) most: u32,
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
    /// The number of the last VM. Its holder is the only task that adds one.
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

    /// The caller's VM; a new one if it is not registered yet. The error is `ENOSPC` if there are
    /// as many as there may be.
    pub(crate) fn join<'a>(&self, guest: &'a CallingVm<'_>) -> Result<&'a Vm> {
        if let Some(vm) = self.table.find(guest) {
            return Ok(vm);
        }
        let mut last = self.last.lock();
        // Another vCPU may have been faster.
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
            // It cannot die before it is on the list: a call of it is under way.
            let rest = self.vm_list.lock().add(vm, room);
            drop(rest);
            *last = number;
        }
        self.table.find(guest).ok_or(ENOENT)
    }

    /// The number of one VM more. Returns `ENOSPC` if there are as many as there may be.
    fn admit(&self, last: u32) -> Result<u32> {
        let vm_list = self.vm_list.lock();
        if vm_list.vms.len() >= self.admission.most as usize {
            return Err(ENOSPC);
        }
        let taken = vm_list.vms.iter().map(|vm| vm.number);
        next(last, taken).ok_or(ENOSPC)
    }

    /// Room for one VM more, if the list has none. Only the holder of `last` adds to the list.
    fn room(&self) -> Result<Option<Room>> {
        let vm_list = self.vm_list.lock();
        let (vms, capacity) = (vm_list.vms.len(), vm_list.vms.capacity());
        drop(vm_list);
        if vms < capacity {
            return Ok(None);
        }
        Room::new((2 * vms).max(LEAST_VMS)).map(Some)
    }
}

/// VMs there is room for at the least.
const LEAST_VMS: usize = 16;

/// The memory of a list of VMs: allocated without its lock, exchanged under it.
struct Room {
    vms: KVec<Arc<Vm>>,
    entities: KVec<Entity>,
}

impl Room {
    fn new(vms: usize) -> Result<Self> {
        Ok(Self {
            vms: KVec::with_capacity(vms, quietly())?,
            entities: KVec::from_elem(Entity::default(), vms, quietly())?,
        })
    }
}

/// The list of VMs, and memory allocated beforehand for computing entitlements.
pub(crate) struct VmList {
    vms: KVec<Arc<Vm>>,
    /// One for each VM there is room for.
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
                // It is larger than the one before.
                let _ = self.vms.push_within_capacity(vm);
            }
            core::mem::swap(&mut self.entities, &mut room.entities);
        }
        // The list is ordered by number, and numbers begin again some day.
        let place = self.vms.partition_point(|other| other.number < vm.number);
        let _ = self.vms.insert_within_capacity(place, vm);
        self.victims.clear();
        room
    }

    /// Takes a VM off the list.
    pub(crate) fn remove(&mut self, vm: &Arc<Vm>) {
        self.vms.retain(|other| !Arc::ptr_eq(other, vm));
        self.victims.clear();
    }

    /// The VMs, ordered by number.
    pub(crate) fn vms(&self) -> &[Arc<Vm>] {
        &self.vms
    }

    /// Returns the VM with the lowest number of at least `from` that has a session, and the session.
    pub(crate) fn next(&self, from: u32) -> Option<(Arc<Vm>, Arc<Session>)> {
        let first = self.vms.partition_point(|vm| vm.number < from);
        let mut vms = self.vms.get(first..)?.iter();
        vms.find_map(|vm| Some((vm.clone(), vm.session()?)))
    }
}
