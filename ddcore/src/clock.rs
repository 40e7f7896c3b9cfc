// SPDX-License-Identifier: GPL-2.0-only

//! The clock that stamps pages, so that their ages can be compared.
//!
//! Time is counted in puts. Each session has its own clock, so that puts of other VMs do not
//! age its pages. While the pages of all VMs form one FIFO, ages are compared between sessions
//! as well: each put then advances the clock of the tier, and the clock of its session follows. The
//! clock of a session never goes back, so that its lists stay in order even if the mode changes.

use crate::number::Number;

/// Number of pages that are put between two ticks.
const TICK: u64 = 512;

/// A clock that counts puts.
#[derive(Debug)]
pub struct Clock<N> {
    puts: N,
}

impl<N: Number> Clock<N> {
    /// Creates a clock at time zero.
    pub fn new() -> Self {
        Self { puts: N::new(0) }
    }

    /// Returns the time in ticks.
    pub fn now(&self) -> u64 {
        self.puts.load() / TICK
    }

    /// Advances the clock by a put of `pages` pages, and returns their stamp.
    pub fn advance(&self, pages: u64) -> u64 {
        self.puts.add(pages);
        self.now()
    }

    /// Advances the clock `all`, which sessions share, by a put of `pages` pages, sets this clock
    /// to it, and returns the pages' stamp. The stamp is not less than that of any page that was
    /// put in this way before.
    pub fn advance_with(&self, all: &Self, pages: u64) -> u64 {
        all.raise(self);
        all.puts.add(pages);
        self.raise(all);
        self.now()
    }

    /// Sets the clock to the time of `other`, unless it is ahead of that time.
    pub fn raise(&self, other: &Self) {
        let to = other.puts.load();
        let mut puts = self.puts.load();
        while puts < to {
            match self.puts.replace(puts, to) {
                Ok(()) => return,
                Err(changed) => puts = changed,
            }
        }
    }
}

impl<N: Number> Default for Clock<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the number of ticks in which `pages` pages are put, which is at least one.
pub const fn ticks(pages: u64) -> u64 {
    let ticks = pages / TICK;
    if ticks == 0 {
        1
    } else {
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{age, STAMP_BITS};
    use crate::number::tests::Plain;
    use crate::policy::order::{Queue, CLASSES};
    use crate::policy::Order;
    use proptest::prelude::*;

    /// Returns the class that loses pages, for the stamps of the oldest and the newest page of each
    /// class.
    fn victim(clock: &Clock<Plain>, stamps: &[(u64, u64); CLASSES]) -> Option<usize> {
        let queues = stamps.map(|(oldest, newest)| Queue {
            used: 1,
            oldest: age(clock.now(), oldest),
            newest: age(clock.now(), newest),
        });
        Order::Aged.victim(&queues)
    }

    proptest! {
        /// Puts into other sessions do not age the pages of a session, no matter how many they are.
        #[test]
        fn others_do_not_change_the_order(
            puts in prop::array::uniform4((0u64..1 << 22, 0u64..1 << 22)),
            of_others in prop_oneof![0u64..1 << 12, Just(TICK << 20), 0u64..TICK << 34],
        ) {
            let (own, other) = (Clock::<Plain>::new(), Clock::<Plain>::new());
            let stamps = puts.map(|(first, more)| (own.advance(first), own.advance(more)));
            let before = victim(&own, &stamps);
            other.advance(of_others);
            prop_assert_eq!(victim(&own, &stamps), before);
            // The same holds for stored stamps, which lack the upper bits.
            let kept = stamps.map(|(a, b)| (a & ((1 << STAMP_BITS) - 1), b & ((1 << STAMP_BITS) - 1)));
            prop_assert_eq!(victim(&own, &kept), before);
        }

        /// In a global FIFO stamps rise from put to put across sessions, whatever their clocks were
        /// before.
        #[test]
        fn one_fifo_has_one_order(
            alone in prop::array::uniform3(0u64..TICK << 21),
            puts in prop::collection::vec((0usize..3, 1u64..TICK * 4), 1..50),
        ) {
            let (all, own) = (Clock::<Plain>::new(), alone.map(|_| Clock::<Plain>::new()));
            for (clock, pages) in own.iter().zip(alone) {
                clock.advance(pages);
            }
            let mut last = 0;
            for (who, pages) in puts {
                let before = own[who].now();
                let stamp = own[who].advance_with(&all, pages);
                prop_assert!(stamp >= last && stamp >= before && all.now() >= stamp);
                last = stamp;
            }
        }
    }

    #[test]
    fn a_page_grows_old_over_petabytes() {
        let clock = Clock::<Plain>::new();
        let first = clock.advance(1);
        for shift in [20, 30, 34] {
            let clock = Clock::<Plain>::new();
            clock.advance(TICK << shift);
            assert_eq!(age(clock.now(), first), 1 << shift);
        }
    }
}
