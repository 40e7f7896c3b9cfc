// SPDX-License-Identifier: GPL-2.0-only

//! vCPUs number their calls from one counter, and the calls may arrive at the host in another order
//! (docs/developers/decisions/0001-sequence.md).

use ddcore::sequence::{Sequence, Verdict};
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::check;

/// Each of two vCPUs makes two calls, numbered by `next`. A call that was overtaken is sent again
/// with a new number.
fn vcpus(next: fn(&AtomicU64) -> u64) {
    check(move || {
        let numbers = Arc::new(AtomicU64::new(0));
        let sequence = Arc::new(Mutex::new(Sequence::new()));
        let vcpu = || {
            let (numbers, sequence) = (numbers.clone(), sequence.clone());
            move || {
                for _ in 0..2 {
                    loop {
                        let number = next(&numbers);
                        match sequence.lock().unwrap().check(number) {
                            Verdict::Accept => break,
                            Verdict::Retry => {}
                            Verdict::Stale => panic!("taken for a guest that was rolled back"),
                        }
                    }
                }
            }
        };
        let other = thread::spawn(vcpu());
        vcpu()();
        other.join().unwrap();
    });
}

#[test]
fn a_guest_that_was_not_rolled_back_never_gets_stale() {
    vcpus(|numbers| numbers.fetch_add(1, Relaxed) + 1);
}

#[test]
#[should_panic(expected = "taken for a guest that was rolled back")]
fn a_number_taken_twice_is_detected() {
    vcpus(|numbers| {
        let number = numbers.load(Relaxed) + 1;
        numbers.store(number, Relaxed);
        number
    });
}
