// SPDX-License-Identifier: GPL-2.0-only

//! The rows of the table of transitions, and the results of the operations.

use crate::segments::{file, map, Map};
use ddabi::key::FileKey;
use ddcore::presence::State::{self, Absent, Cancelled, Leaving, Present};
use ddcore::presence::{Claim, Cursor, Finished, Refused};

const STATES: [State; 4] = [Absent, Present, Leaving, Cancelled];

/// Puts pages of file (1, 1) into a state.
fn bring(map: &mut Map, index: u64, pages: u32, state: State) {
    let key = file(1, 1);
    if state != Absent {
        assert_eq!(map.begin_put(&key, index, pages), Ok(()));
    }
    match state {
        Absent | Leaving => {}
        Present => {
            let present = u64::from(pages);
            let finished = map.finish_put(&key, index, pages, true);
            assert_eq!(
                finished,
                Finished {
                    present,
                    cancelled: 0
                }
            );
        }
        Cancelled => assert_eq!(map.invalidate(&key, index, index), 0),
    }
    assert_eq!(map.state(&key, index), state);
}

/// Returns the states of page 130 after an event, and the results of the event, for each of the
/// possible states before the event.
fn row<T>(event: impl Fn(&mut Map) -> T) -> ([State; 4], Vec<T>) {
    let mut answers = Vec::new();
    let states = STATES.map(|state| {
        let mut map = map(1, 1, 3);
        bring(&mut map, 130, 1, state);
        answers.push(event(&mut map));
        map.verify().unwrap();
        assert_eq!(
            map.counters().chunks,
            u32::from(map.state(&file(1, 1), 130) != Absent)
        );
        map.state(&file(1, 1), 130)
    });
    (states, answers)
}

#[test]
fn put_begins() {
    let (states, answers) = row(|map| map.begin_put(&file(1, 1), 130, 1));
    assert_eq!(states, [Leaving, Leaving, Cancelled, Cancelled]);
    let busy = Err(Refused::Busy);
    assert_eq!(answers, [Ok(()), Ok(()), busy, busy]);
}

#[test]
fn put_is_confirmed_or_fails() {
    let none = Finished::default();
    let cancelled = Finished {
        present: 0,
        cancelled: 1,
    };
    let (states, answers) = row(|map| map.finish_put(&file(1, 1), 130, 1, true));
    assert_eq!(states, [Absent, Present, Present, Absent]);
    assert_eq!(
        answers,
        [
            none,
            none,
            Finished {
                present: 1,
                cancelled: 0
            },
            cancelled
        ]
    );
    let (states, answers) = row(|map| map.finish_put(&file(1, 1), 130, 1, false));
    assert_eq!(states, [Absent, Present, Absent, Absent]);
    assert_eq!(answers, [none, none, none, cancelled]);
}

#[test]
fn content_changes() {
    let events: [fn(&mut Map) -> u64; 6] = [
        |map| map.invalidate(&file(1, 1), 130, 130),
        |map| map.invalidate(&file(1, 1), 0, u64::MAX),
        |map| map.forget_file(&file(1, 1)),
        |map| {
            map.forget_filesystems(|one| one == 1, &mut Cursor::default(), 9)
                .cleared
        },
        |map| map.clear(&mut Cursor::default(), 9).cleared,
        |map| {
            map.invalidate_step(&file(1, 1), 128, 200, &mut Cursor::default(), 9)
                .cleared
        },
    ];
    for event in events {
        let (states, answers) = row(event);
        assert_eq!(states, [Absent, Absent, Cancelled, Cancelled]);
        assert_eq!(answers, [0, 1, 0, 0]);
    }
}

/// Returns file (1, 1) with another generation.
fn renamed() -> FileKey {
    FileKey {
        generation: 2,
        ..file(1, 1)
    }
}

#[test]
fn another_generation_is_named() {
    // Only the fifth event covers page 130. All of them remove the page, because its generation is
    // outdated, and count it as cleared if it was present.
    let events: [fn(&mut Map) -> Option<u64>; 6] = [
        |map| map.begin_put(&renamed(), 500, 1).err().map(|_| 0),
        |map| match map.claim(&renamed(), 500, 1) {
            Claim::Ask => Some(0),
            Claim::Miss { .. } => None,
        },
        |map| Some(map.invalidate(&renamed(), 500, 500)),
        |map| Some(map.invalidate(&renamed(), 5, 4)),
        |map| Some(map.forget_file(&renamed())),
        |map| {
            let mut cursor = Cursor::default();
            let step = map.invalidate_step(&renamed(), 500, 600, &mut cursor, 1);
            Some(step.cleared)
        },
    ];
    for event in events {
        for state in STATES {
            let mut map = map(1, 1, 3);
            bring(&mut map, 130, 1, state);
            let cleared = event(&mut map);
            assert!(cleared.is_none() || cleared == Some(u64::from(state == Present)));
            map.verify().unwrap();
            // The page is not found under the first generation either.
            map.invalidate(&file(1, 1), 9, 9);
            let left = match state {
                Absent | Present => Absent,
                Leaving | Cancelled => Cancelled,
            };
            assert_eq!(map.state(&file(1, 1), 130), left);
            map.verify().unwrap();
        }
    }
}

#[test]
fn a_put_ends_after_its_generation() {
    let mut map = map(1, 1, 3);
    bring(&mut map, 130, 1, Leaving);
    assert_eq!(map.begin_put(&renamed(), 130, 1), Err(Refused::Busy));
    assert_eq!(map.begin_put(&renamed(), 131, 1), Ok(()));
    let cancelled = Finished {
        present: 0,
        cancelled: 1,
    };
    assert_eq!(map.finish_put(&file(1, 1), 130, 1, true), cancelled);
    assert_eq!(map.finish_put(&renamed(), 131, 1, true).present, 1);
    // The notice is about the copy of the first generation.
    assert_eq!(map.notice(&file(1, 1), 131, 1), 0);
    assert!(map.peek(&renamed(), 131, 1) && !map.peek(&file(1, 1), 131, 1));
    map.verify().unwrap();
}

#[test]
fn what_does_not_concern_the_page() {
    let events: [fn(&mut Map) -> u64; 6] = [
        |map| map.invalidate(&file(1, 1), 131, u64::MAX),
        |map| map.invalidate(&file(1, 1), 0, 129),
        |map| map.forget_file(&file(1, 2)),
        |map| {
            map.forget_filesystems(|one| one == 2, &mut Cursor::default(), 9)
                .cleared
        },
        |map| map.notice(&file(1, 1), 0, 130),
        |map| map.present_run(&file(1, 1), 131, 1000),
    ];
    for event in events {
        assert_eq!(row(event), (STATES, vec![0; 4]));
    }
}

#[test]
fn read_claims() {
    let (states, answers) = row(|map| map.claim(&file(1, 1), 130, 1));
    assert_eq!(states, [Absent, Absent, Leaving, Cancelled]);
    let miss = Claim::Miss { present: 0 };
    assert_eq!(answers, [miss, Claim::Ask, miss, miss]);
}

#[test]
fn read_claims_pages_that_the_host_may_keep() {
    let (states, answers) = row(|map| map.claim_retained(&file(1, 1), 130, 1));
    assert_eq!(states, [Absent, Leaving, Leaving, Cancelled]);
    let miss = Claim::Miss { present: 0 };
    assert_eq!(answers, [miss, Claim::Ask, miss, miss]);
    // A page that is absent is not claimed, and the page before it does not stay present.
    let mut map = map(1, 1, 3);
    bring(&mut map, 129, 1, Present);
    assert_eq!(
        map.claim_retained(&file(1, 1), 129, 2),
        Claim::Miss { present: 1 }
    );
    assert_eq!(map.state(&file(1, 1), 129), Absent);
}

#[test]
fn a_page_that_changes_while_it_is_read_is_not_kept() {
    for (changes, state) in [(false, Present), (true, Absent)] {
        let mut map = map(1, 1, 3);
        bring(&mut map, 130, 1, Present);
        assert_eq!(map.claim_retained(&file(1, 1), 130, 1), Claim::Ask);
        assert_eq!(map.claim(&file(1, 1), 130, 1), Claim::Miss { present: 0 });
        if changes {
            map.invalidate(&file(1, 1), 130, 130);
        }
        let finished = map.finish_put(&file(1, 1), 130, 1, true);
        assert_eq!(finished.cancelled, u64::from(changes));
        assert_eq!(map.state(&file(1, 1), 130), state);
    }
}

#[test]
fn host_evicts() {
    let (states, answers) = row(|map| map.notice(&file(1, 1), 130, 1));
    assert_eq!(states, [Absent, Absent, Leaving, Cancelled]);
    assert_eq!(answers, [0, 1, 0, 0]);
}

#[test]
fn looking_changes_nothing() {
    let (states, answers) = row(|map| map.peek(&file(1, 1), 130, 1));
    assert_eq!((states, answers), (STATES, vec![false, true, false, false]));
    let (states, answers) = row(|map| map.present_run(&file(1, 1), 130, u64::MAX));
    assert_eq!((states, answers), (STATES, vec![0, 1, 0, 0]));
}

#[test]
fn clock_spares_pages_on_their_way() {
    let (states, answers) = row(|map| {
        let mut dropped = Vec::new();
        let pages = map
            .reclaim(1, |key, first, last| dropped.push((key, first, last)))
            .pages;
        assert_eq!(map.counters().dropped, pages);
        (pages, dropped)
    });
    assert_eq!(states, [Absent, Absent, Leaving, Cancelled]);
    let none = (0, Vec::new());
    let some = (1, vec![(file(1, 1), 128, 255)]);
    assert_eq!(answers, [none.clone(), some, none.clone(), none]);
}

#[test]
fn one_busy_page_refuses_the_run() {
    let key = file(1, 1);
    let mut map = map(1, 1, 3);
    bring(&mut map, 120, 4, Present);
    bring(&mut map, 126, 1, Leaving);
    bring(&mut map, 130, 1, Cancelled);
    assert_eq!(map.begin_put(&key, 120, 16), Err(Refused::Busy));
    let states = [120, 123, 124, 126, 130, 135].map(|index| map.state(&key, index));
    assert_eq!(
        states,
        [Absent, Absent, Absent, Cancelled, Cancelled, Absent]
    );
    assert_eq!((map.counters().present, map.counters().going), (0, 2));
    map.verify().unwrap();
}

#[test]
fn read_of_a_folio_takes_all_or_misses() {
    let key = file(1, 1);
    let mut map = map(1, 1, 3);
    bring(&mut map, 100, 60, Present);
    assert_eq!(map.present_run(&key, 101, 1000), 59);
    assert_eq!(map.present_run(&key, 101, 40), 40);
    assert!(map.peek(&key, 112, 48) && !map.peek(&key, 112, 49));
    assert_eq!(map.claim(&key, 112, 32), Claim::Ask);
    assert_eq!(map.claim(&key, 128, 32), Claim::Miss { present: 16 });
    assert_eq!(map.counters().present, 12);
}
