// SPDX-License-Identifier: GPL-2.0

//! The channel to the host: calls, and the session they belong to.
//!
//! Only the worker begins sessions. Hooks read the session lock-free; one that ends while a call is
//! on its way makes that call fail and nothing else.

use crate::counters::{count, Counters};
use crate::ffi::worker::Worker;
use crate::host::call::{Call, CallBuffers, Failure};
use crate::number::Number;
use ddabi::answer::HelloAnswer;
use ddabi::genl::LinkState;
use ddabi::hypercall::{Operation, Outcome, Status};
use ddabi::request::Hello;
use ddabi::PAGE_SIZE;
use ddcore::link::Link;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use zerocopy::{Immutable, IntoBytes};

/// Calls to the host, and whether there is one.
pub(crate) struct Channel {
    buffers: CallBuffers,
    /// The session, and whether hibernation keeps one from beginning.
    link: Link<Number>,
    /// A [`LinkState`].
    state: Atomic<u32>,
    /// Our number at the host.
    vm: Atomic<u32>,
    counters: Counters,
}

impl Channel {
    /// A channel without a host.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            buffers: CallBuffers::new()?,
            link: Link::new(),
            state: Atomic::new(LinkState::Alone as u32),
            vm: Atomic::new(0),
            counters: Counters::new()?,
        })
    }

    /// What the module counts.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The session, and whether one may begin.
    pub(crate) fn link(&self) -> &Link<Number> {
        &self.link
    }

    /// The session, if there is one. Any context.
    pub(crate) fn session(&self) -> Option<u64> {
        self.link.session()
    }

    /// The state as users see it.
    pub(crate) fn state(&self) -> u32 {
        self.state.load(Relaxed)
    }

    /// Sets the state that users see. Worker.
    pub(crate) fn set_state(&self, state: LinkState) {
        self.state.store(state as u32, Relaxed);
    }

    /// Our number at the host, 0 if never registered.
    pub(crate) fn vm(&self) -> u32 {
        self.vm.load(Relaxed)
    }

    /// Notes our number at the host. Worker.
    pub(crate) fn set_vm(&self, vm: u32) {
        self.vm.store(vm, Relaxed);
    }

    /// See [`CallBuffers::begin`].
    pub(crate) fn begin(&self) -> Option<Call<'_>> {
        self.buffers.begin()
    }

    /// Sends a call. A failure may end the session.
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
            let ends = matches!(
                failure,
                Failure::NoHost | Failure::Refused(Status::Stale | Status::Denied)
            );
            if ends && self.link.lose(session) {
                Worker::kick();
            }
        }
        sent
    }

    /// One call with one element.
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

    /// Registers with the host. The session is not used yet.
    pub(crate) fn hello(&self) -> Result<HelloAnswer, Failure> {
        self.buffers.restart();
        let hello = Hello {
            page_size: PAGE_SIZE as u32,
            ..Hello::default()
        };
        // Without an answer page (a migration is under way) there is no session yet.
        self.command(0, Operation::Hello, &hello, |call| {
            call.body::<HelloAnswer>()
        })?
        .filter(|answer| answer.session != 0)
        .ok_or(Failure::NoHost)
    }

    /// Ends a session at the host.
    pub(crate) fn goodbye(&self, session: u64) {
        if let Some(mut call) = self.begin() {
            let _ = self.send(&mut call, Operation::Goodbye, session);
        }
    }

    /// Drops everything the host holds for us, by beginning a new session.
    pub(crate) fn renew(&self) {
        if let Some(session) = self.session() {
            self.link.lose(session);
            Worker::kick();
        }
    }
}
