// SPDX-License-Identifier: GPL-2.0-only

//! Tests of what a container waits for, and of what helps it.

use super::*;

#[test]
fn the_store_does_not_help_users_of_anonymous_memory() {
    let mut member = Member {
        cost: Some(Cost(0.5)),
        used: Some(Pages(10.0)),
        ..Member::default()
    };
    assert!(member.is_too_small());
    let reading = Reading {
        anon: 9,
        file: 1,
        ..Reading::default()
    };
    for _ in 0..3 {
        member.observer.observe(&reading, &Rates::default());
    }
    assert_eq!(member.character(), Character::Anonymous);
    assert!(!member.store_helps() && !member.is_too_small());
}

#[test]
fn one_of_disk_and_memory_is_enough_to_wait_for() {
    let waits = |io_pressure, memory_pressure| {
        !waits_for_nothing(&Rates {
            io_pressure,
            memory_pressure,
            ..Rates::default()
        })
    };
    assert!(!waits(Some(0.0), Some(0.0)) && !waits(Some(0.0), None));
    assert!(waits(Some(50.0), Some(0.0)) && waits(Some(0.0), Some(50.0)));
    // A container may be waiting for a resource whose pressure is not known.
    assert!(waits(None, Some(0.0)));
}
