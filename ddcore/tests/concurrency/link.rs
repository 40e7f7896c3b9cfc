// SPDX-License-Identifier: GPL-2.0-only

//! The worker begins a session while hibernation begins or ends, or while a call finds that the
//! session has ended.

use ddcore::link::{Begun, Link};
use ddcore::number::Number;
use loom::sync::Arc;
use loom::thread;

use crate::check;
use crate::number::{OrderedNumber, RelaxedNumber};

const SESSION: u64 = 7;

/// Begins a session as the worker does. Returns whether the worker has to send Goodbye.
fn begin<N: Number>(link: &Link<N>) -> bool {
    !link.is_paused() && link.begin(SESSION) == Begun::Refused
}

fn no_session_outlasts_a_pause<N: Number + Send + Sync + 'static>() {
    check(|| {
        let link = Arc::new(Link::<N>::new());
        let worker = {
            let link = link.clone();
            thread::spawn(move || begin(&link))
        };
        let taken = link.pause().is_some();
        let refused = worker.join().unwrap();
        assert_eq!(link.session(), None);
        assert!(!(taken && refused), "Goodbye is sent twice");
        assert!(link.is_paused());
    });
}

#[test]
fn hibernation_ends_sessions_that_begin() {
    no_session_outlasts_a_pause::<OrderedNumber>();
}

#[test]
#[should_panic(expected = "assertion")]
fn numbers_without_order_are_detected() {
    no_session_outlasts_a_pause::<RelaxedNumber>();
}

#[test]
fn a_pause_that_ends_leaves_nothing_behind() {
    check(|| {
        let link = Arc::new(Link::<OrderedNumber>::new());
        let worker = {
            let link = link.clone();
            thread::spawn(move || link.begin(SESSION))
        };
        let taken = link.pause();
        link.resume();
        let begun = worker.join().unwrap();
        assert!(!link.is_paused(), "sessions may begin again");
        let left = link.session().is_some();
        // The session still exists only if it began and `pause` did not end it. `begin` may return
        // `Lasts` for a session that `pause` has ended since.
        assert_eq!(left, begun == Begun::Lasts && taken.is_none());
        assert!(taken.is_none() || begun != Begun::Refused);
    });
}

#[test]
fn one_of_the_callers_that_find_a_session_lost_ends_it() {
    check(|| {
        let link = Arc::new(Link::<OrderedNumber>::new());
        assert_eq!(link.begin(SESSION), Begun::Lasts);
        let call = || {
            let link = link.clone();
            thread::spawn(move || link.session().is_some_and(|session| link.lose(session)))
        };
        let calls = [call(), call()];
        let paused = link.pause().is_some();
        let lost = calls.map(|call| call.join().unwrap());
        let ends = lost.into_iter().chain([paused]).filter(|ended| *ended);
        assert_eq!(ends.count(), 1);
        assert_eq!(link.session(), None);
    });
}
