// SPDX-License-Identifier: GPL-2.0

//! The VMs that have registered: who they are, their sessions, and the list of all.

use crate::ffi::{Guest, VmTable};
use crate::genl::send_event;
use crate::session::Session;
use ddabi::genl::{Attribute, Event};
use ddabi::pool::{DEFAULT_WEIGHT, MAX_POOLS};
use ddcore::partition::{entitle, Entity};
use ddcore::sequence::{Sequence, Verdict};
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::sync::lock::{mutex::MutexBackend, Guard};
use kernel::sync::{new_mutex, new_spinlock, Arc, Mutex, SpinLock};
use kernel::workqueue::{impl_has_work, new_work, Work, WorkItem};

/// A VM, from its first registration until KVM destroys it.
#[pin_data]
pub(crate) struct Vm {
    /// Counted from 1, as administrators see it.
    pub(crate) number: u32,
    /// Process of the VMM, in the initial namespace.
    pub(crate) pid: u32,
    weight: Atomic<u32>,
    #[pin]
    gate: SpinLock<Gate>,
    #[pin]
    end: Work<Vm>,
}

/// What decides about every call.
struct Gate {
    session: Option<Arc<Session>>,
    sequence: Sequence,
}

/// Why a call was not let in.
pub(crate) enum Refused {
    /// The number was overtaken.
    Retry,
    /// The session is not, or no longer, the VM's.
    Unknown,
    /// The guest was rolled back.
    Rollback,
}

impl_has_work! {
    impl HasWork<Self> for Vm { self.end }
}

impl WorkItem for Vm {
    type Pointer = Arc<Vm>;

    /// The VM is gone: KVM has destroyed it.
    fn run(this: Arc<Vm>) {
        this.leave();
        if let Some(host) = crate::ffi::host() {
            host.vms.lock().remove(&this);
        }
    }
}

impl Vm {
    fn new(number: u32, pid: u32) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                number,
                pid,
                weight: Atomic::new(DEFAULT_WEIGHT),
                gate <- new_spinlock!(
                    Gate {
                        session: None,
                        sequence: Sequence::new(),
                    },
                    "Vm::gate"
                ),
                end <- new_work!("Vm::end"),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    pub(crate) fn set_weight(&self, weight: u32) {
        self.weight.store(weight, Relaxed);
    }

    /// The current session, if the guest is registered.
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        self.gate.lock().session.clone()
    }

    /// Lets a call in, or says why not. After anything but Retry the VM has no session and no
    /// pages.
    pub(crate) fn enter(&self, session: u64, number: u64) -> Result<Arc<Session>, Refused> {
        let mut gate = self.gate.lock();
        let refused = match &gate.session {
            Some(current) if current.id == session => {
                let current = current.clone();
                match gate.sequence.check(number) {
                    Verdict::Accept => return Ok(current),
                    Verdict::Retry => return Err(Refused::Retry),
                    Verdict::Stale => Refused::Rollback,
                }
            }
            _ => Refused::Unknown,
        };
        drop(gate);
        if self.leave() && matches!(refused, Refused::Rollback) {
            self.tell(Event::Rollback);
        }
        Err(refused)
    }

    /// Begins a session in place of the one before.
    pub(crate) fn register(&self, session: Arc<Session>) {
        let old = self.exchange(Some(session));
        let came = old.is_none();
        retire(old);
        if came {
            self.tell(Event::VmCame);
        }
    }

    /// Ends the session, if there is one.
    pub(crate) fn leave(&self) -> bool {
        let old = self.exchange(None);
        let went = old.is_some();
        retire(old);
        if went {
            self.tell(Event::VmWent);
        }
        went
    }

    fn exchange(&self, session: Option<Arc<Session>>) -> Option<Arc<Session>> {
        let mut gate = self.gate.lock();
        gate.sequence = Sequence::new();
        core::mem::replace(&mut gate.session, session)
    }

    fn tell(&self, event: Event) {
        if let Some(host) = crate::ffi::host() {
            match event {
                Event::VmCame => host.tier.totals.vms_came.add(1),
                Event::VmWent => host.tier.totals.vms_went.add(1),
                _ => {}
            }
        }
        self.send(event, &[], &[]);
    }

    /// Sends an event about this VM.
    pub(crate) fn send(&self, event: Event, more: &[(Attribute, u32)], name: &[u8]) {
        let mut attributes = [(Attribute::Event, event as u32); 4];
        attributes[1] = (Attribute::VmId, self.number);
        attributes[2] = (Attribute::VmPid, self.pid);
        let mut count = 3;
        for attribute in more.iter().take(1) {
            attributes[count] = *attribute;
            count += 1;
        }
        send_event(&attributes[..count], name);
    }
}

/// Frees the pages of a session that ended. Calls still under way in it end on their own; what
/// they leave goes when the last of them drops the session.
fn retire(session: Option<Arc<Session>>) {
    if let Some(session) = session {
        session.drain();
    }
}

/// All VMs: found by `struct kvm` without a lock, listed under one.
#[pin_data]
pub(crate) struct Registry {
    #[pin]
    table: VmTable,
    #[pin]
    roster: Mutex<Roster>,
}

impl Registry {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
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

    /// The caller's VM; a new one if it is not registered yet.
    pub(crate) fn join<'a>(&self, guest: &'a Guest<'_>) -> Result<&'a Vm> {
        if let Some(vm) = self.table.find(guest) {
            return Ok(vm);
        }
        let pid = kernel::current!().group_leader().pid() as u32;
        let mut roster = self.roster.lock();
        // Another vCPU may have been faster.
        if self.table.find(guest).is_none() {
            let vm = roster.add(pid)?;
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

    fn add(&mut self, pid: u32) -> Result<Arc<Vm>> {
        // Eviction allocates nothing: what it needs is reserved here.
        let vms = self.vms.len() + 1;
        self.entities.clear();
        self.entities.reserve(vms, GFP_KERNEL)?;
        self.scratch.clear();
        self.scratch.reserve(MAX_POOLS as usize, GFP_KERNEL)?;
        let number = self.last.checked_add(1).ok_or(ENOSPC)?;
        let vm = Vm::new(number, pid)?;
        self.vms.push(vm.clone(), GFP_KERNEL)?;
        self.last = number;
        Ok(vm)
    }

    fn remove(&mut self, vm: &Arc<Vm>) {
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
                weight: if session.is_some() { vm.weight() } else { 0 },
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
