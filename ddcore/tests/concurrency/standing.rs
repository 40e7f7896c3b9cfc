// SPDX-License-Identifier: GPL-2.0-only

//! The weight that a VM publishes, while an administrator changes it and its session ends.

use ddcore::host::standing::Standing;
use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
use loom::sync::Arc;
use loom::thread;

use crate::check;
use crate::number::OrderedNumber;

/// Weight of another VM, which the sum must contain at all times.
const PEER: u64 = 7;

struct Host {
    all: Standing<OrderedNumber>,
    own: Standing<OrderedNumber>,
    weight: AtomicU64,
}

/// Two tasks set weights and publish them. `read` selects the weight that a task publishes, given
/// the weight that it has set and the current weight.
fn two_set(read: fn(u64, u64) -> u64) {
    check(move || {
        let host = Arc::new(Host {
            all: Standing::new(),
            own: Standing::new(),
            weight: AtomicU64::new(0),
        });
        Standing::new().publish_weight(&host.all, || PEER);
        let set = move |host: &Host, weight| {
            host.weight.store(weight, SeqCst);
            host.own
                .publish_weight(&host.all, || read(weight, host.weight.load(SeqCst)));
            assert!(host.all.weight() >= PEER);
        };
        let theirs = host.clone();
        let other = thread::spawn(move || set(&theirs, 5));
        set(&host, 0);
        other.join().unwrap();
        let weight = host.weight.load(SeqCst);
        assert_eq!(host.own.weight(), weight);
        assert_eq!(host.all.weight(), PEER + weight);
    });
}

#[test]
fn the_last_weight_is_published() {
    two_set(|_, current| current);
}

/// Each task publishes the weight that it has set itself.
#[test]
#[should_panic(expected = "left")]
fn a_task_that_publishes_its_own_weight_is_detected() {
    two_set(|own, _| own);
}
