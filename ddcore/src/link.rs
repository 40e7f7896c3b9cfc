// SPDX-License-Identifier: GPL-2.0

//! A guest's session with its host, which the worker begins, any call may find to be over, and
//! hibernation ends.
//!
//! No session outlasts the beginning of a pause (invariant 13). Exactly one caller learns that it
//! ended a session, and that one says goodbye.

use crate::number::Number;

/// The session, if there is one, and whether there may be one.
#[derive(Debug)]
pub struct Link<N> {
    /// 0 without a session.
    session: N,
    paused: N,
}

/// What came of beginning a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Begun {
    /// It may be used.
    Lasts,
    /// A pause began in between: the caller says goodbye.
    Refused,
    /// It is over, and others say goodbye.
    Ended,
}

impl<N: Number> Link<N> {
    /// No session.
    pub fn new() -> Self {
        Self {
            session: N::new(0),
            paused: N::new(0),
        }
    }

    /// The session, if there is one.
    pub fn session(&self) -> Option<u64> {
        one(self.session.load())
    }

    /// Whether no session may begin.
    pub fn is_paused(&self) -> bool {
        self.paused.load() != 0
    }

    /// A session begins. Only one caller begins sessions, and only when there is none.
    pub fn begin(&self, session: u64) -> Begun {
        self.session.swap(session);
        // The pausing task may have looked for the session before it was there. In that case it
        // had set the pause before, which is seen here.
        if !self.is_paused() {
            Begun::Lasts
        } else if self.lose(session) {
            Begun::Refused
        } else {
            Begun::Ended
        }
    }

    /// The session turned out to be over; `false` if others found that, or ended it.
    pub fn lose(&self, session: u64) -> bool {
        session != 0 && self.session.replace(session, 0).is_ok()
    }

    /// Ends the session, whichever it is.
    pub fn end(&self) -> Option<u64> {
        one(self.session.swap(0))
    }

    /// No session begins from now on until [`Link::resume`]. Ends the session.
    pub fn pause(&self) -> Option<u64> {
        self.paused.swap(1);
        self.end()
    }

    /// Sessions may begin again.
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
