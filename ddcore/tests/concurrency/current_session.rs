// SPDX-License-Identifier: GPL-2.0-only

//! vCPUs of one VM concurrently register, leave, and send calls of ended sessions
//! (docs/developers/decisions/0001-sequence.md). A call that was checked before a session began
//! does not end that session.

use ddcore::current_session::{CurrentSession, Refused};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::check;

type Shared = Mutex<CurrentSession<u64>>;

/// Runs `other` for session 1 on one vCPU while another vCPU registers session 2, whose first call
/// must be accepted.
fn beside_a_registration(other: fn(&Shared)) {
    check(move || {
        let current = Arc::new(Mutex::new(CurrentSession::new()));
        current.lock().unwrap().begin(1, 1);
        let shared = current.clone();
        let straggler = thread::spawn(move || other(&shared));
        current.lock().unwrap().begin(2, 2);
        let first = current.lock().unwrap().enter(2, 1);
        assert!(first.is_ok(), "the new session has ended");
        straggler.join().unwrap();
    });
}

/// The injected fault: ends whichever session is current when a call is refused, instead of the
/// session of that call.
fn ends_what_it_finds(current: &Shared, number: u64) {
    let refused = current.lock().unwrap().enter(1, number).is_err();
    if refused {
        current.lock().unwrap().close();
    }
}

#[test]
fn a_straggler_ends_no_session() {
    beside_a_registration(|current| drop(current.lock().unwrap().enter(1, 1)));
}

#[test]
#[should_panic(expected = "the new session has ended")]
fn a_straggler_that_ends_any_session_is_detected() {
    beside_a_registration(|current| ends_what_it_finds(current, 1));
}

#[test]
fn a_rollback_ends_its_own_session() {
    beside_a_registration(|current| {
        let _ = current.lock().unwrap().enter(1, 1);
        if let Err(Refused::Rollback(ended)) = current.lock().unwrap().enter(1, 1) {
            assert_eq!(ended, 1);
        }
    });
}

#[test]
#[should_panic(expected = "the new session has ended")]
fn a_rollback_that_is_judged_first_and_ended_later_is_detected() {
    beside_a_registration(|current| {
        let _ = current.lock().unwrap().enter(1, 1);
        ends_what_it_finds(current, 1);
    });
}

#[test]
fn a_goodbye_ends_its_own_session() {
    beside_a_registration(|current| {
        if current.lock().unwrap().enter(1, 1).is_ok() {
            let _ = current.lock().unwrap().end(1);
        }
    });
}

#[test]
#[should_panic(expected = "the new session has ended")]
fn a_goodbye_that_ends_any_session_is_detected() {
    beside_a_registration(|current| {
        if current.lock().unwrap().enter(1, 1).is_ok() {
            let _ = current.lock().unwrap().close();
        }
    });
}
