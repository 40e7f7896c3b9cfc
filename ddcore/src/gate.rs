// SPDX-License-Identifier: GPL-2.0

//! Which calls of a VM are let in, and when its session ends (docs/decisions/0001-sequence.md).

use crate::sequence::{Sequence, Verdict};

/// A VM's session, if its guest is registered, and the numbers seen in it.
#[derive(Debug)]
pub struct Gate<S> {
    /// With the number that names it in requests.
    session: Option<(u64, S)>,
    sequence: Sequence,
}

/// Why a call was not let in.
#[derive(Debug)]
pub enum Refused<S> {
    /// Its number was overtaken.
    Retry,
    /// Its session is not, or no longer, the VM's. The VM's session goes on: it may have begun
    /// after the call was sent.
    Unknown,
    /// The guest was rolled back: the session has ended, and this is what is left of it.
    Rollback(S),
}

impl<S> Default for Gate<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Gate<S> {
    /// A gate of a guest that is not registered.
    pub const fn new() -> Self {
        Self {
            session: None,
            sequence: Sequence::new(),
        }
    }

    /// The session.
    pub fn session(&self) -> Option<&S> {
        self.session.as_ref().map(|(_, session)| session)
    }

    /// The number that names the session.
    pub fn id(&self) -> Option<u64> {
        self.session.as_ref().map(|(id, _)| *id)
    }

    /// Begins a session in place of the one before, which is returned.
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

    /// Ends whatever session there is, and returns it.
    pub fn close(&mut self) -> Option<S> {
        self.sequence = Sequence::new();
        self.session.take().map(|(_, session)| session)
    }
}

impl<S: Clone> Gate<S> {
    /// Lets a call in, or says why not. A session that a rollback ends is ended here, by the same
    /// look: between two looks another one could have begun.
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
        let mut gate = Gate::new();
        gate.begin(1, "old");
        assert!(gate.enter(1, 1).is_ok());
        assert_eq!(gate.begin(2, "new"), Some("old"));
        assert!(matches!(gate.enter(1, 2), Err(Refused::Unknown)));
        assert_eq!(gate.end(1), None);
        assert_eq!(gate.enter(2, 1).unwrap(), "new");
    }

    #[test]
    fn a_rollback_ends_the_session_once() {
        let mut gate = Gate::new();
        gate.begin(1, "one");
        assert!(gate.enter(1, 5).is_ok());
        assert!(matches!(gate.enter(1, 4), Err(Refused::Retry)));
        assert!(matches!(gate.enter(1, 5), Err(Refused::Rollback("one"))));
        assert!(matches!(gate.enter(1, 6), Err(Refused::Unknown)));
        assert_eq!(gate.close(), None);
    }

    #[test]
    fn numbers_begin_again_with_each_session() {
        let mut gate = Gate::new();
        gate.begin(1, ());
        assert!(gate.enter(1, 9).is_ok());
        gate.begin(2, ());
        assert!(gate.enter(2, 1).is_ok());
        assert_eq!(gate.end(2), Some(()));
        assert!(gate.session().is_none());
    }
}
