// SPDX-License-Identifier: GPL-2.0-only

//! A registered VM: its identity and its session.
//!
//! [`registry`] has all VMs. [`session`] is a registration, with its [`pool`]s and its pages in
//! [`shard`]s, and [`teardown`] ends it. [`emptying`] frees the pages of pools in the background,
//! or leaves them to the SSD tier by [`demotion`]. [`charge`] determines which cgroup is charged
//! for memory of the VM. [`scratch`] is the memory of a call, and [`allowance`] bounds the events
//! about a VM.

pub(crate) mod allowance;
pub(crate) mod charge;
mod demotion;
pub(crate) mod emptying;
pub(crate) mod pool;
pub(crate) mod registry;
pub(crate) mod scratch;
pub(crate) mod session;
pub(crate) mod shard;
pub(crate) mod teardown;

use crate::counters::totals;
use crate::ffi::tracepoints;
use crate::genl::send_event;
use crate::memory::gfp_nowarn;
use crate::number::Number;
use crate::ssd::writer::Spent;
use crate::ssd::Ssd;
use crate::state::host;
use crate::tier::Tier;
use crate::vm::allowance::Allowance;
use crate::vm::scratch::ScratchList;
use crate::vm::session::Session;
use crate::vm::teardown::Teardowns;
use core::ops::Deref;
use ddabi::genl::{Attribute, Event};
use ddcore::current_session::{CurrentSession, Refused};
use ddcore::host::standing::{entitlement, settle, Standing};
use ddcore::host::{Host as _, Session as _};
use ddcore::partition::part;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::sync::{new_spinlock, Arc, SpinLock};
use kernel::task::Task;
use kernel::workqueue::{impl_has_work, new_work, Work};

/// Value of `ssd_weight` until the administrator sets it: the weight equals that in the memory
/// tier.
const SAME: u32 = u32::MAX;

/// A VM, from its first registration until KVM destroys it.
#[pin_data]
pub(crate) struct Vm {
    /// Number by which administrators refer to the VM, counted from 1.
    pub(crate) number: u32,
    /// Process ID of the VMM at the first registration, in the initial PID namespace, as reported
    /// in events.
    pid: u32,
    /// The process itself. If another process holds the VM's file descriptor, the VM outlives this
    /// one, whose ID may then be reused.
    process: ARef<Task>,
    weight: Atomic<u32>,
    /// The weight in the SSD tier, or [`SAME`].
    ssd_weight: Atomic<u32>,
    /// The tier that has the pages of the VM.
    tier: Arc<Tier>,
    /// The standing that the VM has published to the memory tier.
    standing: Standing<Number>,
    ssd: Arc<Ssd>,
    /// The standing that the VM has published to the SSD tier, which is its weight.
    ssd_standing: Standing<Number>,
    /// What the VM has spent of the write budgets of devices.
    pub(crate) spent: Arc<Spent>,
    #[pin]
    current_session: SpinLock<CurrentSession<Arc<Session>>>,
    teardowns: Arc<Teardowns>,
    #[pin]
    scratch: ScratchList,
    #[pin]
    events: SpinLock<Allowance>,
    #[pin]
    end: Work<Vm>,
}

impl_has_work! {
    impl HasWork<Self> for Vm { self.end }
}

impl ddcore::host::room::Vm for Vm {
    type Session = Session;

    fn number(&self) -> u32 {
        self.number
    }

    fn share(&self) -> u32 {
        self.weight()
    }

    fn ssd_share(&self) -> u32 {
        self.ssd_weight()
    }

    fn session(&self) -> Option<impl Deref<Target = Session>> {
        self.session()
    }

    fn peek<R>(&self, look: impl FnOnce(&Session) -> R) -> Option<R> {
        self.peek(look)
    }

    fn standing(&self) -> &Standing<Number> {
        &self.standing
    }
}

impl Vm {
    /// Creates a VM of the calling process, without a session.
    pub(crate) fn new(
        number: u32,
        weight: u32,
        tier: Arc<Tier>,
        ssd: Arc<Ssd>,
    ) -> Result<Arc<Self>> {
        let current = kernel::current!();
        let process: ARef<Task> = current.group_leader().into();
        Arc::pin_init(
            try_pin_init!(Self {
                number,
                pid: process.pid() as u32,
                process,
                weight: Atomic::new(weight),
                ssd_weight: Atomic::new(SAME),
                tier,
                standing: Standing::new(),
                ssd,
                ssd_standing: Standing::new(),
                spent: Arc::new(Spent::new(), gfp_nowarn())?,
                teardowns: Teardowns::new()?,
                current_session <- new_spinlock!(CurrentSession::new(), "Vm::current_session"),
                scratch <- ScratchList::new(),
                events <- new_spinlock!(Allowance::new(), "Vm::events"),
                end <- new_work!("Vm::end"),
            }),
            gfp_nowarn(),
        )
    }

    pub(crate) fn scratch(&self) -> &ScratchList {
        &self.scratch
    }

    /// Returns the process ID of the VMM in the caller's PID namespace, or 0 if the process has
    /// ended or is not in that namespace.
    pub(crate) fn process(&self) -> u32 {
        self.process.tgid_nr_ns(None) as u32
    }

    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    pub(crate) fn set_weight(&self, weight: u32) {
        self.weight.store(weight, Relaxed);
        self.settle();
    }

    /// Returns the weight in the SSD tier.
    pub(crate) fn ssd_weight(&self) -> u32 {
        match self.ssd_weight.load(Relaxed) {
            SAME => self.weight(),
            weight => weight,
        }
    }

    pub(crate) fn set_ssd_weight(&self, weight: u32) {
        self.ssd_weight.store(weight, Relaxed);
        self.settle();
    }

    /// Publishes the weights to both tiers and, in the memory tier, the pages that the VM lends.
    pub(crate) fn settle(&self) {
        settle(&self.tier, self);
        if let Some(session) = self.session() {
            self.tell_ssd_weight(&session);
        }
        let weight = || self.session().map_or(0, |_| self.ssd_weight().into());
        self.ssd_standing
            .publish_weight(self.ssd.standing(), weight);
    }

    /// Sets the weight of a session in the SSD tier. Another task may change the weight of the VM
    /// during the call; the session has the new one afterwards.
    fn tell_ssd_weight(&self, session: &Session) {
        loop {
            let weight = self.ssd_weight();
            session.set_vm_ssd_weight(weight);
            if self.ssd_weight() == weight {
                break;
            }
        }
    }

    /// Returns the number of pages of the SSD tier to which the VM is entitled.
    pub(crate) fn ssd_entitlement(&self) -> u64 {
        let all = self.ssd.standing().weight();
        part(self.ssd.places(), self.ssd_standing.weight(), all)
    }

    /// Returns the number of pages of the memory tier to which the VM is entitled.
    pub(crate) fn entitlement(&self) -> u64 {
        entitlement(&self.tier, self)
    }

    /// Returns the current session, if the guest is registered.
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        self.current_session.lock().session().cloned()
    }

    /// Calls `look` with the current session, if the guest is registered. A spinlock keeps the
    /// session from ending while `look` runs.
    pub(crate) fn peek<R>(&self, look: impl FnOnce(&Session) -> R) -> Option<R> {
        let current = self.current_session.lock();
        current.session().map(|session| look(session))
    }

    /// Checks the session and the sequence number of a call. Returns the session, or the reason for
    /// which the call is refused. After a rollback the VM has neither a session nor pages.
    pub(crate) fn enter(
        &self,
        session: u64,
        number: u64,
    ) -> Result<Arc<Session>, Refused<Arc<Session>>> {
        let judged = self.current_session.lock().enter(session, number);
        if let Err(Refused::Rollback(ended)) = &judged {
            self.ended(ended);
            self.tell(Event::Rollback);
        }
        judged
    }

    /// Begins a session, which replaces the previous one.
    pub(crate) fn register(&self, session: Arc<Session>) {
        let old = self.current_session.lock().begin(session.id, session);
        self.settle();
        if tracepoints::vm_register_is_on() {
            tracepoints::vm_register(self.number, self.pid, old.is_some());
        }
        match old {
            Some(old) => self.tear_down(&old),
            None => self.tell(Event::VmCame),
        }
    }

    /// Ends a session, unless another one has begun since.
    pub(crate) fn end(&self, session: &Session) {
        let ended = self.current_session.lock().end(session.id);
        if let Some(ended) = ended {
            self.ended(&ended);
        }
    }

    /// Ends the current session, if there is one.
    pub(crate) fn leave(&self) {
        let ended = self.current_session.lock().close();
        if let Some(ended) = ended {
            self.ended(&ended);
        }
    }

    /// Frees the pages of a session that has ended. Calls that are still running in it may store
    /// more pages, which are freed when the last of these calls drops the session.
    fn ended(&self, session: &Arc<Session>) {
        self.settle();
        if tracepoints::vm_unregister_is_on() {
            let pages = session.used() + session.state().ssd();
            tracepoints::vm_unregister(self.number, self.pid, pages);
        }
        self.tear_down(session);
        self.tell(Event::VmWent);
    }

    /// Frees the pages of a session that is no longer current. Waits for tasks that have found it
    /// in the list of VMs: otherwise one of them could drop the last reference, and free the memory
    /// of the session, while it holds the lock of the list.
    fn tear_down(&self, session: &Arc<Session>) {
        Teardowns::add(&self.teardowns, session);
        if let Some(host) = host() {
            drop(host.lock());
        }
    }

    fn tell(&self, event: Event) {
        match event {
            Event::VmCame => totals().vms_came.add(1),
            Event::VmWent => totals().vms_went.add(1),
            _ => {}
        }
        self.send(event, None, &[]);
    }

    /// Sends an event about this VM, unless there were too many in the current second.
    pub(crate) fn send(&self, event: Event, more: Option<(Attribute, u32)>, name: &[u8]) {
        if !self.events.lock().take() {
            totals().events_dropped.add(1);
            return;
        }
        let known = [
            (Attribute::Event, event as u32),
            (Attribute::VmId, self.number),
            (Attribute::VmPid, self.pid),
        ];
        match more {
            Some(more) => send_event(&[known[0], known[1], known[2], more], name),
            None => send_event(&known, name),
        }
    }
}
