// SPDX-License-Identifier: GPL-2.0-only

//! Missing slots, impossible pages, large files, and interrupted walks.

use crate::segments::{file, map};
use ddabi::key::{FileKey, MAX_INDEX};
use ddcore::presence::State::{Absent, Cancelled, Present};
use ddcore::presence::{Claim, Counters, Cursor, Finished, Refused, Step};

#[test]
fn full_run_is_invalidated() {
    let key = file(1, 1);
    let mut map = map(1, 1, 3);
    assert_eq!(map.begin_put(&key, 0, 384), Ok(()));
    map.finish_put(&key, 0, 384, true);
    assert_eq!(map.begin_put(&key, 300, 300), Err(Refused::Full));
    assert_eq!(
        [299, 300, 383, 512].map(|i| map.state(&key, i)),
        [Present, Absent, Absent, Absent]
    );
    assert_eq!(map.begin_put(&key, 1000, 1), Ok(()));
    assert_eq!(map.begin_put(&file(1, 2), 0, 1), Err(Refused::Full));
    assert!(map.low().any());
    map.chunk_slots_mut().grow();
    assert_eq!(map.begin_put(&file(1, 2), 0, 1), Err(Refused::Full));
    assert!(!map.adopt(1) && map.adopt(3));
    assert_eq!(map.begin_put(&file(1, 2), 0, 1), Ok(()));
    map.verify().unwrap();
}

#[test]
fn cancelled_pages_keep_their_slots() {
    let mut map = map(1, 1, 3);
    for inode in 0..4 {
        assert_eq!(map.begin_put(&file(1, inode), 5, 1), Ok(()));
    }
    let _ = map.clear(&mut Cursor::default(), u32::MAX);
    assert_eq!(map.reclaim(100, |_, _, _| ()).chunks, 0);
    assert_eq!(map.begin_put(&file(2, 1), 5, 1), Err(Refused::Full));
    assert_eq!(map.state(&file(1, 3), 5), Cancelled);
    let cancelled = Finished {
        present: 0,
        cancelled: 1,
    };
    assert_eq!(map.finish_put(&file(1, 3), 5, 1, true), cancelled);
    assert_eq!(map.begin_put(&file(2, 1), 5, 1), Ok(()));
    map.verify().unwrap();
}

#[test]
fn no_such_pages() {
    let key = file(1, 1);
    let mut map = map(1, 1, 3);
    assert_eq!(map.begin_put(&key, MAX_INDEX, 1), Ok(()));
    map.finish_put(&key, MAX_INDEX, 1, true);
    assert!(map.peek(&key, MAX_INDEX, 1) && !map.peek(&key, MAX_INDEX, 2));
    assert_eq!(map.present_run(&key, MAX_INDEX, u64::MAX), 1);
    for (index, pages) in [
        (MAX_INDEX + 1, 1),
        (u64::MAX, u32::MAX),
        (u64::MAX, 1),
        (7, 0),
    ] {
        assert_eq!(map.begin_put(&key, index, pages), Err(Refused::Full));
        assert_eq!(
            map.finish_put(&key, index, pages, true),
            Finished::default()
        );
        assert_eq!(map.claim(&key, index, pages), Claim::Miss { present: 0 });
        assert_eq!(map.notice(&key, index, pages), 0);
        assert_eq!(map.invalidate(&key, index, index.saturating_add(7)), 0);
        assert_eq!(map.state(&key, index), Absent);
        assert!(!map.peek(&key, index, pages));
        assert_eq!(map.present_run(&key, index, 9), 0);
    }
    assert_eq!(map.present_run(&key, MAX_INDEX, 0), 0);
    assert_eq!(map.invalidate(&key, u64::MAX, 0), 0);
    assert_eq!(map.counters().present, 1);
    assert_eq!(map.begin_put(&key, MAX_INDEX, 2), Err(Refused::Full));
    assert_eq!(
        map.counters(),
        Counters {
            file_slots: 4,
            chunk_slots: 4,
            ..Counters::default()
        }
    );
}

#[test]
fn large_file() {
    let key = file(1, 1);
    let mut map = map(1, 600, 3);
    for index in (0..1 << 18).step_by(512) {
        assert_eq!(map.begin_put(&key, index, 512), Ok(()));
        assert_eq!(map.finish_put(&key, index, 512, true).present, 512);
    }
    assert_eq!(map.present_run(&key, 0, u64::MAX), 1 << 18);
    assert_eq!(map.invalidate(&key, 1000, 1999), 1000);
    assert_eq!(map.invalidate(&key, 200_000, u64::MAX), (1 << 18) - 200_000);
    map.verify().unwrap();
    assert_eq!(map.forget_file(&key), 199_000);
    let empty = Counters {
        file_slots: 4,
        chunk_slots: 2400,
        ..Counters::default()
    };
    assert_eq!(map.counters(), empty);
    map.verify().unwrap();
}

#[test]
fn interrupted_walk_sees_every_old_page() {
    let key = file(1, 1);
    let mut map = map(1, 10, 3);
    for index in 0..30 {
        assert_eq!(map.begin_put(&key, index * 128, 1), Ok(()));
        assert_eq!(map.finish_put(&key, index * 128, 1, true).present, 1);
    }
    let mut cursor = Cursor::default();
    let step = map.invalidate_step(&key, 128, u64::MAX, &mut cursor, 7);
    assert_eq!(
        step,
        Step {
            cleared: 7,
            done: false
        }
    );
    // The chunk at which the walk stopped is freed, and its slot is reused for another file.
    assert_eq!(map.invalidate(&key, 22 * 128, 22 * 128), 1);
    assert_eq!(map.begin_put(&file(2, 2), 0, 1), Ok(()));
    let step = map.invalidate_step(&key, 128, u64::MAX, &mut cursor, u32::MAX);
    assert_eq!(
        step,
        Step {
            cleared: 21,
            done: true
        }
    );
    assert_eq!((map.counters().present, map.state(&key, 0)), (1, Present));
    map.verify().unwrap();
}

#[test]
fn clock_gives_a_second_chance_to_recent_puts() {
    // The clock hand may reach any of the remaining chunks first.
    for which in 0..3 {
        let mut map = map(1, 1, 3);
        for inode in 0..4 {
            assert_eq!(map.begin_put(&file(1, inode), 0, 1), Ok(()));
            map.finish_put(&file(1, inode), 0, 1, true);
        }
        assert_eq!(
            map.reclaim(1, |_, _, _| ()).chunks,
            1,
            "all are recent: the first one goes"
        );
        let left: Vec<u64> = (0..4).filter(|i| map.peek(&file(1, *i), 0, 1)).collect();
        let again = file(1, left[which]);
        assert_eq!(map.begin_put(&again, 9, 1), Ok(()));
        map.finish_put(&again, 9, 1, true);
        assert_eq!(map.reclaim(2, |_, _, _| ()).chunks, 2);
        assert!(map.peek(&again, 0, 1), "{which}");
    }
}

#[test]
fn a_large_file_gets_another_generation_in_steps() {
    let old = file(1, 1);
    let new = FileKey {
        generation: 2,
        ..old
    };
    const CHUNKS: u64 = 1000;
    let mut map = map(2, 1001, 3);
    for chunk in 0..CHUNKS {
        assert_eq!(map.begin_put(&old, chunk * 128, 1), Ok(()));
        map.finish_put(&old, chunk * 128, 1, true);
    }
    assert_eq!(map.begin_put(&old, 1, 1), Ok(()));

    assert_eq!(map.claim(&new, 0, 1), Claim::Miss { present: 0 });
    assert!(map.has_outdated());
    map.verify().unwrap();
    // Pages of neither generation are present or can be added until all old pages are forgotten.
    for key in [&old, &new] {
        assert_eq!(map.state(key, 128), Absent);
        assert_eq!(map.claim(key, 128, 1), Claim::Miss { present: 0 });
        assert_eq!(map.begin_put(key, 2, 1), Err(Refused::Busy));
    }
    let (mut cursor, mut cleared, mut steps) = (Cursor::default(), 0, 0);
    loop {
        let step = map.forget_outdated(&mut cursor, 100);
        assert!(step.cleared <= 100);
        (cleared, steps) = (cleared + step.cleared, steps + 1);
        map.verify().unwrap();
        if step.done {
            break;
        }
    }
    assert_eq!(cleared, CHUNKS);
    assert!(steps >= CHUNKS / 100);
    // The put in flight was cancelled, and no other put of the page can begin until it ends.
    assert_eq!(map.begin_put(&new, 1, 1), Err(Refused::Busy));
    let cancelled = Finished {
        present: 0,
        cancelled: 1,
    };
    assert_eq!(map.finish_put(&old, 1, 1, true), cancelled);
    assert!(!map.has_outdated());
    assert_eq!(map.begin_put(&new, 1, 1), Ok(()));
    map.verify().unwrap();
}
