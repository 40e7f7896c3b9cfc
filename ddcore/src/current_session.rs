// SPDX-License-Identifier: GPL-2.0-only

//! Checks the session and the sequence number of each call of a VM
//! (docs/developers/decisions/0001-sequence.md).

use crate::sequence::{Sequence, Verdict};

/// The session of a VM, if its guest is registered, and the sequence numbers seen in it. The owner
/// protects it by a lock.
#[derive(Debug)]
pub struct CurrentSession<S> {
    /// The session, and its id in requests.
    session: Option<(u64, S)>,
    sequence: Sequence,
}

/// Reason for which a call is refused.
#[derive(Debug)]
pub enum Refused<S> {
    /// A later call overtook it. The guest sends it again with a new sequence number.
    Retry,
    /// It names another session than the VM's current one. The current session continues, because
    /// it may have begun after the call was sent.
    Unknown,
    /// The guest was rolled back to a snapshot: its session has ended and is returned.
    Rollback(S),
}

impl<S> Default for CurrentSession<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> CurrentSession<S> {
    /// Creates the state of a guest that is not registered.
    pub const fn new() -> Self {
        Self {
            session: None,
            sequence: Sequence::new(),
        }
    }

    /// Returns the session.
    pub fn session(&self) -> Option<&S> {
        self.session.as_ref().map(|(_, session)| session)
    }

    /// Returns the id of the session.
    pub fn id(&self) -> Option<u64> {
        self.session.as_ref().map(|(id, _)| *id)
    }

    /// Begins a session and returns the previous one.
    pub fn begin(&mut self, id: u64, session: S) -> Option<S> {
        self.sequence = Sequence::new();
        let old = self.session.replace((id, session));
        old.map(|(_, session)| session)
    }

    /// Ends a session and returns it, unless another one has begun since.
    pub fn end(&mut self, id: u64) -> Option<S> {
        if self.id() == Some(id) {
            self.close()
        } else {
            None
        }
    }

    /// Ends the current session and returns it.
    pub fn close(&mut self) -> Option<S> {
        self.sequence = Sequence::new();
        self.session.take().map(|(_, session)| session)
    }
}

impl<S: Clone> CurrentSession<S> {
    /// Returns the session of a call, or the reason for which the call is refused. If the guest was
    /// rolled back, the session ends within this function. If the caller ended it afterwards, it
    /// could end a session that has begun in between.
    pub fn enter(&mut self, id: u64, number: u64) -> Result<S, Refused<S>> {
        let Some((current, session)) = &self.session else {
            return Err(Refused::Unknown);
        };
        if *current != id {
            return Err(Refused::Unknown);
        }
        match self.sequence.check(number) {
            Verdict::Accept => Ok(session.clone()),
            Verdict::Retry => Err(Refused::Retry),
            Verdict::Stale => {
                let ended = session.clone();
                self.close();
                Err(Refused::Rollback(ended))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_with_an_older_session_ends_nothing() {
        let mut current = CurrentSession::new();
        current.begin(1, "old");
        assert!(current.enter(1, 1).is_ok());
        assert_eq!(current.begin(2, "new"), Some("old"));
        assert!(matches!(current.enter(1, 2), Err(Refused::Unknown)));
        assert_eq!(current.end(1), None);
        assert_eq!(current.enter(2, 1).unwrap(), "new");
    }

    #[test]
    fn a_rollback_ends_the_session_once() {
        let mut current = CurrentSession::new();
        current.begin(1, "one");
        assert!(current.enter(1, 5).is_ok());
        assert!(matches!(current.enter(1, 4), Err(Refused::Retry)));
        assert!(matches!(current.enter(1, 5), Err(Refused::Rollback("one"))));
        assert!(matches!(current.enter(1, 6), Err(Refused::Unknown)));
        assert_eq!(current.close(), None);
    }

    #[test]
    fn numbers_begin_again_with_each_session() {
        let mut current = CurrentSession::new();
        current.begin(1, ());
        assert!(current.enter(1, 9).is_ok());
        current.begin(2, ());
        assert!(current.enter(2, 1).is_ok());
        assert_eq!(current.end(2), Some(()));
        assert!(current.session().is_none());
    }
}
