// SPDX-License-Identifier: GPL-2.0-only

//! A VM, which accepts calls, with a plain set of the sequence numbers that it has used.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use ddcore::current_session::{CurrentSession, Refused};
use ddcore::host::Session as _;
use ddcore::host::standing::Standing;
use ddcore::host::walk::drain;
use ddcore::sequence::WINDOW;

use crate::call::Sent;
use crate::session::Registration;

pub(crate) struct Vm {
    pub(crate) number: u32,
    pub(crate) weight: Cell<u32>,
    /// Weight in the SSD tier.
    pub(crate) ssd_weight: Cell<u32>,
    pub(crate) standing: Standing<AtomicU64>,
    current_session: RefCell<CurrentSession<Rc<Registration>>>,
    /// Sequence numbers seen in the session.
    seen: RefCell<BTreeSet<u64>>,
}

impl Vm {
    pub(crate) fn new(number: u32) -> Self {
        Self {
            number,
            weight: Cell::new(100),
            ssd_weight: Cell::new(100),
            standing: Standing::new(),
            current_session: RefCell::new(CurrentSession::new()),
            seen: RefCell::default(),
        }
    }

    pub(crate) fn current(&self) -> Option<Rc<Registration>> {
        self.current_session.borrow().session().cloned()
    }

    pub(crate) fn id(&self) -> u64 {
        self.current_session.borrow().id().unwrap_or(0)
    }

    /// Begins a session. Returns the previous one.
    pub(crate) fn begin(&self, session: Rc<Registration>) -> Option<Rc<Registration>> {
        *self.seen.borrow_mut() = BTreeSet::from([0]);
        self.current_session
            .borrow_mut()
            .begin(session.own.id, session)
    }

    /// Ends the current session, if there is one.
    pub(crate) fn end(&self) {
        let ended = self.current_session.borrow_mut().close();
        if let Some(ended) = ended {
            drain(&*ended, 0..ended.shards());
        }
    }

    /// Returns the sequence number of a request.
    pub(crate) fn next_number(&self, sent: &Sent) -> u64 {
        let seen = self.seen.borrow();
        let next = seen.last().map_or(1, |highest| highest.saturating_add(1));
        match sent {
            Sent::Numbered(number) => (next + u64::from(*number)).saturating_sub(1 << 15),
            _ => next,
        }
    }

    /// Returns the session of a call if the call is accepted. After a rollback there is no session.
    pub(crate) fn enter(&self, id: u64, number: u64) -> Option<Rc<Registration>> {
        let is_current = self.current_session.borrow().id() == Some(id);
        let mut seen = self.seen.borrow_mut();
        let highest = seen.last().copied().unwrap_or(0);
        let entered = self.current_session.borrow_mut().enter(id, number);
        match entered {
            Ok(session) => {
                let is_new = seen.insert(number);
                assert!(is_current && number > highest && is_new);
                Some(session)
            }
            Err(Refused::Retry) => {
                assert!(is_current && !seen.contains(&number) && highest - number <= WINDOW);
                None
            }
            Err(Refused::Rollback(ended)) => {
                assert!(is_current && number <= highest);
                assert!(seen.contains(&number) || highest - number > WINDOW);
                drain(&*ended, 0..ended.shards());
                None
            }
            Err(Refused::Unknown) => {
                assert!(!is_current);
                None
            }
        }
    }
}
