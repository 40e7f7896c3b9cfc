// SPDX-License-Identifier: GPL-2.0-only

//! The channel to the host: calls, and the session they belong to.
//!
//! Only the worker begins sessions. Hooks read the session without a lock. If it ends while a call
//! is under way, that call fails without further consequences.

use crate::counters::{count, Counters};
use crate::ffi::tracepoints;
use crate::ffi::worker::Worker;
use crate::host::call::{Call, CallBuffers, Failure};
use crate::number::Number;
use ddabi::answer::{HelloAnswer, DEFER, RETAIN};
use ddabi::genl::LinkState;
use ddabi::hypercall::{Operation, Outcome, Status};
use ddabi::request::Hello;
use ddabi::PAGE_SIZE;
use ddcore::link::Link;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use zerocopy::{Immutable, IntoBytes};

/// The call buffers, the session and the counters of the module, which are all that pools need of
/// the module's state.
pub(crate) struct Channel {
    buffers: CallBuffers,
    /// The session, and whether hibernation prevents one.
    link: Link<Number>,
    /// The [`LinkState`] that users see.
    state: Atomic<u32>,
    /// The VM's number at the host, 0 before the first session.
    vm: Atomic<u32>,
    /// Features of the session.
    features: Atomic<u64>,
    /// Whether the host's SSD tier keeps the pages that it returns.
    retains: Atomic<bool>,
    counters: Counters,
}

impl Channel {
    /// Allocates a channel without a session. Sleeps.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            buffers: CallBuffers::new()?,
            link: Link::new(),
            state: Atomic::new(LinkState::Alone as u32),
            vm: Atomic::new(0),
            features: Atomic::new(0),
            retains: Atomic::new(false),
            counters: Counters::new()?,
        })
    }

    /// Returns the counters of the module.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the link, which begins and ends sessions.
    pub(crate) fn link(&self) -> &Link<Number> {
        &self.link
    }

    /// Returns the session, if there is one. Any context.
    pub(crate) fn session(&self) -> Option<u64> {
        self.link.session()
    }

    /// Returns the [`LinkState`] that users see. Between the end of a session and the moment when
    /// the worker has detached the hooks, which takes part of a second, it is still `Attached`.
    pub(crate) fn state(&self) -> u32 {
        self.state.load(Relaxed)
    }

    /// Sets the state that users see. Worker only.
    pub(crate) fn set_state(&self, state: LinkState) {
        self.state.store(state as u32, Relaxed);
    }

    /// Returns the VM's number at the host, 0 before the first session.
    pub(crate) fn vm(&self) -> u32 {
        self.vm.load(Relaxed)
    }

    /// Returns whether the host can defer gets.
    pub(crate) fn can_defer(&self) -> bool {
        self.features.load(Relaxed) & DEFER != 0
    }

    /// Returns whether the host's SSD tier keeps the pages that it returns, as far as is known.
    /// Pages that it has kept remain valid if this changes.
    pub(crate) fn retains(&self) -> bool {
        self.retains.load(Relaxed) && self.features.load(Relaxed) & RETAIN != 0
    }

    /// Records whether the host's SSD tier keeps the pages that it returns.
    pub(crate) fn note_retains(&self, retains: bool) {
        if self.retains.load(Relaxed) != retains {
            self.retains.store(retains, Relaxed);
        }
    }

    /// Records the host's answer about a session that is about to begin. Worker only.
    pub(crate) fn note(&self, answer: &HelloAnswer) {
        self.retains.store(false, Relaxed);
        self.vm.store(answer.vm, Relaxed);
        self.features.store(answer.features, Relaxed);
    }

    /// See [`CallBuffers::begin`].
    pub(crate) fn begin(&self) -> Option<Call<'_>> {
        self.buffers.begin()
    }

    /// Sends a call and returns its outcome. If the call fails because the host has ended the
    /// session, the session ends in the guest as well, and the worker is woken.
    pub(crate) fn send(
        &self,
        call: &mut Call<'_>,
        operation: Operation,
        session: u64,
    ) -> Result<Outcome, Failure> {
        count!(self, calls);
        let sent = call.send(operation, session, || {
            count!(self, calls);
            count!(self, retries);
        });
        if let Err(failure) = sent {
            if failure == Failure::Refused(Status::Stale) {
                count!(self, stale);
            }
            let reason = match failure {
                Failure::NoHost => Some(c"no-host"),
                Failure::Refused(Status::Stale) => Some(c"stale"),
                Failure::Refused(Status::Denied) => Some(c"denied"),
                _ => None,
            };
            if let Some(reason) = reason.filter(|_| self.link.lose(session)) {
                self.trace_end(reason);
                Worker::kick();
            }
        }
        sent
    }

    /// Makes a call with one element and returns the result of `read` for the answer.
    pub(crate) fn command<R>(
        &self,
        session: u64,
        operation: Operation,
        body: &(impl IntoBytes + Immutable),
        read: impl FnOnce(&Call<'_>) -> R,
    ) -> Result<R, Failure> {
        let mut call = self.begin().ok_or(Failure::NoHost)?;
        call.push(body);
        self.send(&mut call, operation, session)?;
        Ok(read(&call))
    }

    /// Registers with the host. Returns its answer with a new session, which is not used before it
    /// is passed to the link. Worker only.
    pub(crate) fn hello(&self) -> Result<HelloAnswer, Failure> {
        self.buffers.restart();
        let hello = Hello {
            features: DEFER | RETAIN,
            page_size: PAGE_SIZE as u32,
            ..Hello::default()
        };
        // The host does not write an answer page that is absent, which can happen in the middle of
        // a migration. The session is unknown then, and the worker registers again later.
        self.command(0, Operation::Hello, &hello, |call| {
            call.body::<HelloAnswer>()
        })?
        .filter(|answer| answer.session != 0)
        .ok_or(Failure::NoHost)
    }

    /// Notifies the host that a session is over, so that it frees the pages of the session.
    pub(crate) fn goodbye(&self, session: u64) {
        if let Some(mut call) = self.begin() {
            let _ = self.send(&mut call, Operation::Goodbye, session);
        }
    }

    /// Passes the tracepoint for the end of a session.
    pub(crate) fn trace_end(&self, reason: &'static CStr) {
        if tracepoints::session_end_is_on() {
            tracepoints::session_end(self.vm(), reason);
        }
    }

    /// Makes the host drop all pages of this VM, by ending the session: the worker begins a new
    /// one.
    pub(crate) fn renew(&self) {
        if let Some(session) = self.session() {
            if self.link.lose(session) {
                self.trace_end(c"flush");
            }
            Worker::kick();
        }
    }
}
