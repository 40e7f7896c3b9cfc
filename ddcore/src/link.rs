// SPDX-License-Identifier: GPL-2.0-only

//! A guest's session with its host. The worker begins it, any call may find that the host has ended
//! it, and hibernation ends it in the guest.
//!
//! No session continues after the beginning of a pause (invariant 13). Exactly one caller learns
//! that it has ended a session, and this caller sends the Goodbye call.

use crate::number::Number;

/// The session, if there is one, and whether sessions are paused. Processors share it without a
/// lock.
#[derive(Debug)]
pub struct Link<N> {
    /// Id of the session, or 0 without a session.
    session: N,
    paused: N,
}

/// Result of [`Link::begin`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Begun {
    /// The session may be used.
    Lasts,
    /// A pause began in between, and the caller has to send Goodbye.
    Refused,
    /// Another task has ended the session, and sends Goodbye.
    Ended,
}

impl<N: Number> Link<N> {
    /// Creates a link without a session.
    pub fn new() -> Self {
        Self {
            session: N::new(0),
            paused: N::new(0),
        }
    }

    /// Returns the session, if there is one.
    pub fn session(&self) -> Option<u64> {
        one(self.session.load())
    }

    /// Returns whether sessions are paused.
    pub fn is_paused(&self) -> bool {
        self.paused.load() != 0
    }

    /// Begins a session. Only one task (the worker) may call this, and only without a session.
    pub fn begin(&self, session: u64) -> Begun {
        self.session.swap(session);
        // The pausing task may have checked for a session before this one was set. In that case it
        // had already set `paused`, which is visible here.
        if !self.is_paused() {
            Begun::Lasts
        } else if self.lose(session) {
            Begun::Refused
        } else {
            Begun::Ended
        }
    }

    /// Ends a session that the host no longer knows. Returns `false` if another task has ended it
    /// already.
    pub fn lose(&self, session: u64) -> bool {
        session != 0 && self.session.replace(session, 0).is_ok()
    }

    /// Ends the current session and returns it.
    pub fn end(&self) -> Option<u64> {
        one(self.session.swap(0))
    }

    /// Ends the current session and returns it. No session begins until [`Link::resume`].
    pub fn pause(&self) -> Option<u64> {
        self.paused.swap(1);
        self.end()
    }

    /// Lets sessions begin again.
    pub fn resume(&self) {
        self.paused.swap(0);
    }
}

impl<N: Number> Default for Link<N> {
    fn default() -> Self {
        Self::new()
    }
}

fn one(session: u64) -> Option<u64> {
    (session != 0).then_some(session)
}
