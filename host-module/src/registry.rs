// SPDX-License-Identifier: GPL-2.0

//! All VMs: found by `struct kvm` without a lock, listed under one.

use crate::ffi::{Guest, VmTable};
use crate::memory::quietly;
use crate::mutation::mutated;
use crate::session::Session;
use crate::vm::Vm;
use ddabi::pool::MAX_POOLS;
use ddcore::partition::{entitle, Entity};
use ddcore::roll::next;
use kernel::prelude::*;
use kernel::sync::lock::{mutex::MutexBackend, Guard};
use kernel::sync::{new_mutex, Arc, Mutex};

/// Who may register, and as what.
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
    #[pin]
    table: VmTable,
    #[pin]
    roster: Mutex<Roster>,
}

impl Registry {
    pub(crate) fn new(admission: Admission) -> impl PinInit<Self> {
        pin_init!(Self {
            admission,
            table <- VmTable::new(),
            roster <- new_mutex!(Roster::new(), "Registry::roster"),
        })
    }

    pub(crate) fn table(&self) -> &VmTable {
        &self.table
    }

    /// The list; who holds it is the only one to evict.
    pub(crate) fn lock(&self) -> Guard<'_, Roster, MutexBackend> {
        self.roster.lock()
    }

    /// The list, if nobody holds it.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, Roster, MutexBackend>> {
        self.roster.try_lock()
    }

    /// The caller's VM; a new one if it is not registered yet. The error is `ENOSPC` if there are
    /// as many as there may be.
    pub(crate) fn join<'a>(&self, guest: &'a Guest<'_>) -> Result<&'a Vm> {
        if let Some(vm) = self.table.find(guest) {
            return Ok(vm);
        }
        let pid = kernel::current!().group_leader().pid() as u32;
        let mut roster = self.roster.lock();
        // Another vCPU may have been faster.
        if self.table.find(guest).is_none() {
            let vm = roster.add(pid, self.admission)?;
            if let Err(error) = self.table.insert(guest, vm.clone()) {
                roster.remove(&vm);
                return Err(error);
            }
        }
        self.table.find(guest).ok_or(ENOENT)
    }
}

/// The list of VMs, and room for those who divide among them.
pub(crate) struct Roster {
    vms: KVec<Arc<Vm>>,
    entities: KVec<Entity>,
    scratch: KVec<Entity>,
    last: u32,
}

impl Roster {
    const fn new() -> Self {
        Self {
            vms: KVec::new(),
            entities: KVec::new(),
            scratch: KVec::new(),
            last: 0,
        }
    }

    fn add(&mut self, pid: u32, admission: Admission) -> Result<Arc<Vm>> {
        if self.vms.len() >= admission.most as usize && !mutated(c"vms-without-limit") {
            return Err(ENOSPC);
        }
        // Eviction allocates nothing: what it needs is reserved here.
        let vms = self.vms.len() + 1;
        self.entities.clear();
        self.entities.reserve(vms, quietly())?;
        self.scratch.clear();
        self.scratch.reserve(MAX_POOLS as usize, quietly())?;
        let taken = self.vms.iter().map(|vm| vm.number);
        let (number, place) = next(self.last, taken).ok_or(ENOSPC)?;
        let vm = Vm::new(number, pid, admission.weight)?;
        self.vms.reserve(1, quietly())?;
        // Has the room: just reserved.
        let _ = self.vms.insert_within_capacity(place, vm.clone());
        self.last = number;
        Ok(vm)
    }

    /// Takes a VM off the list.
    pub(crate) fn remove(&mut self, vm: &Arc<Vm>) {
        self.vms.retain(|other| !Arc::ptr_eq(other, vm));
    }

    /// The VMs, ordered by number.
    pub(crate) fn vms(&self) -> &[Arc<Vm>] {
        &self.vms
    }

    /// The session of the VM at a place of the list.
    pub(crate) fn session(&self, at: usize) -> Option<Arc<Session>> {
        self.vms.get(at)?.session()
    }

    /// Divides `pages` among the VMs; see [`Self::entities`].
    pub(crate) fn entitle(&mut self, pages: u64) {
        self.entities.clear();
        for vm in &self.vms {
            let session = vm.session();
            let entity = Entity {
                weight: if session.is_some() { vm.share() } else { 0 },
                entitlement: 0,
                used: session.map_or(0, |session| session.used()),
            };
            // Reserved in `add`.
            let _ = self.entities.push_within_capacity(entity);
        }
        entitle(&mut self.entities, pages);
    }

    /// The VMs as [`Self::entitle`] saw them, in the order of the list.
    pub(crate) fn entities(&self) -> &[Entity] {
        &self.entities
    }

    /// Room for the pools of a VM.
    pub(crate) fn scratch(&mut self) -> &mut KVec<Entity> {
        &mut self.scratch
    }
}
