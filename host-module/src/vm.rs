// SPDX-License-Identifier: GPL-2.0

//! A VM that has registered: who it is, and its session.

use crate::allowance::Allowance;
use crate::desk::Desks;
use crate::genl::send_event;
use crate::memory::quietly;
use crate::mutation::mutated;
use crate::session::Session;
use ddabi::genl::{Attribute, Event};
use ddabi::pool::DEFAULT_WEIGHT;
use ddcore::sequence::{Sequence, Verdict};
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::sync::{new_spinlock, Arc, SpinLock};
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
    desks: Desks,
    #[pin]
    events: SpinLock<Allowance>,
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
        if mutated(c"dead-vm-kept") {
            return;
        }
        this.leave();
        if let Some(host) = crate::ffi::host() {
            host.vms.lock().remove(&this);
        }
    }
}

impl Vm {
    /// A VM without a session.
    pub(crate) fn new(number: u32, pid: u32) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
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
                desks <- Desks::new(),
                events <- new_spinlock!(Allowance::new(), "Vm::events"),
                end <- new_work!("Vm::end"),
            }),
            quietly(),
        )
    }

    pub(crate) fn desks(&self) -> &Desks {
        &self.desks
    }

    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    /// Its weight when pages are divided.
    pub(crate) fn share(&self) -> u32 {
        match self.weight() {
            1.. if mutated(c"weights-ignored") => DEFAULT_WEIGHT,
            weight => weight,
        }
    }

    pub(crate) fn set_weight(&self, weight: u32) {
        if mutated(c"weights-fixed") {
            return;
        }
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
            Some(current) if current.id == session || mutated(c"any-session") => {
                let current = current.clone();
                match gate.sequence.check(number) {
                    Verdict::Accept => return Ok(current),
                    _ if mutated(c"rollback-unseen") => return Ok(current),
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
        self.send(event, None, &[]);
    }

    /// Sends an event about this VM, unless there were too many of it.
    pub(crate) fn send(&self, event: Event, more: Option<(Attribute, u32)>, name: &[u8]) {
        if !self.events.lock().take() {
            if let Some(host) = crate::ffi::host() {
                host.tier.totals.events_dropped.add(1);
            }
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

/// Frees the pages of a session that ended. Calls still under way in it end on their own; what
/// they leave goes when the last of them drops the session.
fn retire(session: Option<Arc<Session>>) {
    if let Some(session) = session {
        session.drain();
    }
}
