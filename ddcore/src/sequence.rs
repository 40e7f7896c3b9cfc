// SPDX-License-Identifier: GPL-2.0-only

//! The host's check of sequence numbers of calls (docs/developers/decisions/0001-sequence.md).

/// Number of sequence numbers below the highest that are remembered.
pub const WINDOW: u64 = 1024;

const WORDS: usize = (WINDOW / 64) as usize;

/// Decision about a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The number is the highest so far. The call is to be carried out.
    Accept,
    /// A higher number was seen, but not this one. Nothing is to be done, and the guest sends the
    /// call again with a new number.
    Retry,
    /// The number was seen before, or is too old to be remembered. The guest was rolled back.
    Stale,
}

/// The numbers seen in one session. Zero counts as seen, because guests start at 1.
#[derive(Clone, Debug)]
pub struct Sequence {
    highest: u64,
    /// Bit `n % WINDOW` is set if `n`, in `highest - WINDOW .. highest`, was seen.
    seen: [u64; WORDS],
}

impl Default for Sequence {
    fn default() -> Self {
        Self::new()
    }
}

impl Sequence {
    /// Creates the state of a session without calls.
    pub const fn new() -> Self {
        Self {
            highest: 0,
            seen: [0; WORDS],
        }
    }

    /// Checks a number, and remembers it if it is accepted.
    pub fn check(&mut self, number: u64) -> Verdict {
        if number > self.highest {
            self.advance(number);
            return Verdict::Accept;
        }
        let age = self.highest - number;
        if age == 0 || age > WINDOW || self.bit(number) {
            Verdict::Stale
        } else {
            Verdict::Retry
        }
    }

    fn advance(&mut self, number: u64) {
        let skipped = number - self.highest - 1;
        if skipped >= WINDOW {
            self.seen = [0; WORDS];
        } else {
            // The old highest number enters the window. The numbers in between were not seen.
            self.set(self.highest, true);
            for hole in self.highest + 1..number {
                self.set(hole, false);
            }
        }
        self.highest = number;
    }

    fn bit(&self, number: u64) -> bool {
        let at = number % WINDOW;
        self.seen[(at / 64) as usize] & (1 << (at % 64)) != 0
    }

    fn set(&mut self, number: u64, seen: bool) {
        let at = number % WINDOW;
        let word = &mut self.seen[(at / 64) as usize];
        if seen {
            *word |= 1 << (at % 64);
        } else {
            *word &= !(1 << (at % 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::{BTreeSet, BinaryHeap};

    #[test]
    fn in_order_numbers_are_accepted() {
        let mut sequence = Sequence::new();
        for number in 1..5000 {
            assert_eq!(sequence.check(number), Verdict::Accept);
            assert_eq!(sequence.check(number), Verdict::Stale);
        }
        assert_eq!(sequence.check(0), Verdict::Stale);
    }

    #[test]
    fn a_hole_is_retried_until_it_is_too_old() {
        let mut sequence = Sequence::new();
        assert_eq!(sequence.check(2), Verdict::Accept);
        assert_eq!(sequence.check(1), Verdict::Retry);
        assert_eq!(sequence.check(1), Verdict::Retry);
        assert_eq!(sequence.check(1 + WINDOW), Verdict::Accept);
        assert_eq!(sequence.check(1), Verdict::Retry);
        assert_eq!(sequence.check(2 + WINDOW), Verdict::Accept);
        assert_eq!(sequence.check(1), Verdict::Stale);
    }

    /// Simulates vCPUs that all make one call after the other, and returns the number of additional
    /// exits for each call. Times are in nanoseconds: an exit takes 700 to 1100, and the work of a
    /// call and of the guest until its next call 2500 to 7500.
    fn retries_for_each_call(vcpus: u64) -> f64 {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) % below
        };
        let mut sequence = Sequence::new();
        let (mut next, mut accepted, mut retried) = (0, 0, 0);
        // Each event is the time at which a vCPU takes a number, or arrives with one.
        let mut events: BinaryHeap<_> = (0..vcpus)
            .map(|vcpu| Reverse((random(6000), vcpu, None)))
            .collect();
        while accepted < 10_000 {
            let Reverse((now, vcpu, number)) = events.pop().unwrap();
            let event = match number {
                None => {
                    next += 1;
                    (now + 700 + random(400), vcpu, Some(next))
                }
                Some(number) if sequence.check(number) == Verdict::Accept => {
                    accepted += 1;
                    (now + 2500 + random(5000), vcpu, None)
                }
                Some(_) => {
                    retried += 1;
                    (now + 700, vcpu, None)
                }
            };
            events.push(Reverse(event));
        }
        f64::from(retried) / f64::from(accepted)
    }

    /// The figures of docs/developers/decisions/0001-sequence.md.
    #[test]
    fn late_calls_cost_few_exits() {
        for (vcpus, limit) in [(2, 0.02), (8, 0.12), (32, 0.6), (128, 3.0)] {
            let retries = retries_for_each_call(vcpus);
            assert!(retries <= limit, "{vcpus} vCPUs: {retries}");
        }
    }

    #[test]
    fn extreme_numbers_do_no_harm() {
        let mut sequence = Sequence::new();
        assert_eq!(sequence.check(u64::MAX), Verdict::Accept);
        assert_eq!(sequence.check(u64::MAX), Verdict::Stale);
        assert_eq!(sequence.check(u64::MAX - 1), Verdict::Retry);
        assert_eq!(sequence.check(1), Verdict::Stale);
    }

    proptest! {
        /// The rule of the decision record is compared with an oracle that remembers all numbers.
        #[test]
        fn agrees_with_an_oracle(steps in prop::collection::vec(0u64..1500, 1..400)) {
            let mut sequence = Sequence::new();
            let mut seen = BTreeSet::from([0u64]);
            for step in steps {
                let highest = *seen.last().unwrap();
                // Half of the numbers lie below the highest, half above.
                let number = (highest + step).saturating_sub(750);
                let expected = if number > highest {
                    Verdict::Accept
                } else if seen.contains(&number) || highest - number > WINDOW {
                    Verdict::Stale
                } else {
                    Verdict::Retry
                };
                prop_assert_eq!(sequence.check(number), expected);
                if expected == Verdict::Accept {
                    seen.insert(number);
                }
            }
        }

        /// A guest that was rolled back to a state before an accepted number is detected before any
        /// of its calls is accepted, whatever was lost or overtaken in between.
        #[test]
        fn a_rollback_is_noticed_before_anything_is_accepted(
            before in 0u64..3000,
            sent in prop::collection::vec(any::<bool>(), 1..3000),
        ) {
            let mut sequence = Sequence::new();
            for number in 1..=before {
                sequence.check(number);
            }
            // After the snapshot the guest used more numbers, some of which were never sent.
            let mut accepted = false;
            for (number, sent) in (before + 1..).zip(&sent) {
                if *sent {
                    accepted |= sequence.check(number) == Verdict::Accept;
                }
            }
            prop_assume!(accepted);
            let mut number = before + 1;
            let verdict = loop {
                match sequence.check(number) {
                    Verdict::Retry => number += 1,
                    other => break other,
                }
            };
            prop_assert_eq!(verdict, Verdict::Stale);
        }
    }
}
