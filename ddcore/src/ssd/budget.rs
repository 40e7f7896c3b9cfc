// SPDX-License-Identifier: GPL-2.0-only

//! A budget for the pages that are written to a device, because flash wears out.

use crate::number::Number;

/// A second in nanoseconds. A budget that was not used in a second may be used in the next one.
const SECOND: u64 = 1_000_000_000;

/// Of what may be written at once, this much is kept for writers that have not spent their shares.
const KEPT: u64 = SECOND / 2;

/// A rate of pages. Processors share it without a lock.
#[derive(Debug)]
pub struct Budget<N> {
    /// Nanoseconds for each page; 0 if there is no limit.
    page_ns: N,
    /// The time, in nanoseconds, until which the pages written so far use up the budget.
    spent_until: N,
}

/// What one of several writers has spent of a budget. A writer may use what the others leave, but
/// cannot take their shares.
#[derive(Debug)]
pub struct Spending<N> {
    /// The time, in nanoseconds, until which the pages of the writer use up its share.
    until: N,
}

/// The share of a writer: its weight, and the sum of all weights.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// The weight of the writer. A writer of weight 0 has no share.
    pub weight: u64,
    /// The sum of the weights of all writers.
    pub all: u64,
}

impl Share {
    /// Returns the time for which pages use up the share of which all writers together use up the
    /// budget for `ns`.
    fn time(self, ns: u64) -> u64 {
        let all = self.all.max(self.weight);
        let (Some(whole), Some(rest)) = (ns.checked_div(self.weight), ns.checked_rem(self.weight))
        else {
            return u64::MAX;
        };
        // ns * all / weight, without leaving 64 bits as long as weights are below 2^32.
        let rest = rest.saturating_mul(all) / self.weight;
        whole.saturating_mul(all).saturating_add(rest)
    }
}

impl<N: Number> Spending<N> {
    /// Creates the spending of a writer that has written nothing.
    pub fn new() -> Self {
        Self { until: N::new(0) }
    }

    /// Returns whether pages that use up the share for `ns` are within the share at `now`.
    fn is_within(&self, ns: u64, now: u64) -> bool {
        let before = self.until.load();
        ns < u64::MAX && (before <= now || before.saturating_add(ns) <= now.saturating_add(SECOND))
    }

    /// Notes pages that use up the share for `ns`. A writer that has used what others left has spent
    /// its share of the next second at most.
    fn add(&self, ns: u64, now: u64) {
        let until = self.until.load().max(now).saturating_add(ns);
        // A count that is lost between two processors is of no consequence.
        self.until.swap(until.min(now.saturating_add(SECOND)));
    }
}

impl<N: Number> Default for Spending<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<N: Number> Budget<N> {
    /// Creates a budget without limit.
    pub fn new() -> Self {
        Self {
            page_ns: N::new(0),
            spent_until: N::new(0),
        }
    }

    /// Sets the number of pages in a second, at most 10⁹; 0 means no limit.
    pub fn set(&self, pages: u64) {
        self.page_ns.swap(SECOND.checked_div(pages).unwrap_or(0));
    }

    /// Takes back pages that were counted and are not written. They still count as spent by their
    /// writer, which has asked for more than there was room for.
    pub fn give_back(&self, pages: u64) {
        let page_ns = self.page_ns.load();
        self.spent_until.subtract(pages.saturating_mul(page_ns));
    }

    /// Returns whether a writer may write `pages` at `now`, in nanoseconds, and counts them if so.
    pub fn spend(&self, writer: &Spending<N>, share: Share, pages: u64, now: u64) -> bool {
        let page_ns = self.page_ns.load();
        if page_ns == 0 {
            return true;
        }
        let cost = pages.saturating_mul(page_ns);
        let own_cost = share.time(cost);
        let most = match writer.is_within(own_cost, now) {
            true => SECOND,
            false => SECOND - KEPT,
        };
        loop {
            let before = self.spent_until.load();
            let after = before.max(now).saturating_add(cost);
            // What costs more than a second may be written when all before it is paid for.
            if after > now.saturating_add(most) && before > now {
                return false;
            }
            if self.spent_until.replace(before, after).is_ok() {
                writer.add(own_cost, now);
                return true;
            }
        }
    }
}

impl<N: Number> Default for Budget<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::tests::Plain;
    use proptest::prelude::*;

    const ALL: Share = Share { weight: 1, all: 1 };
    const HALF: Share = Share { weight: 5, all: 10 };

    #[test]
    fn without_a_limit_all_may_be_written() {
        let (budget, own) = (Budget::<Plain>::new(), Spending::new());
        let spend = |pages, now| budget.spend(&own, ALL, pages, now);
        assert!(spend(u64::MAX, 0));
        budget.set(10);
        assert!(spend(10, 0) && !spend(1, 0));
        assert!(spend(50, 2 * SECOND) && !spend(1, 6 * SECOND));
        assert!(spend(1, 7 * SECOND));
        budget.set(0);
        assert!(spend(1 << 40, 0));
    }

    #[test]
    fn pages_that_are_not_written_are_given_back() {
        let (budget, own, other) = (Budget::<Plain>::new(), Spending::new(), Spending::new());
        budget.set(10);
        assert!(budget.spend(&own, ALL, 10, SECOND) && !budget.spend(&other, ALL, 10, SECOND));
        budget.give_back(10);
        assert!(budget.spend(&other, ALL, 10, SECOND));
    }

    #[test]
    fn a_writer_without_weight_gets_what_others_leave() {
        let (budget, own) = (Budget::<Plain>::new(), Spending::new());
        budget.set(10);
        let none = Share { weight: 0, all: 10 };
        let spend = |now| (0..10).filter(|_| budget.spend(&own, none, 1, now)).count();
        assert_eq!((spend(SECOND), spend(SECOND)), (5, 0));
        assert_eq!(spend(2 * SECOND), 5);
    }

    proptest! {
        /// In any time, no more is written than the rate allows and what one second more does; and a
        /// writer that never stops uses all of it, whatever its share is.
        #[test]
        fn the_rate_is_kept(
            rate in 100u64..100_000,
            weight in 1u64..=100,
            pauses in prop::collection::vec(1u64..SECOND / 8, 100..200),
        ) {
            let (budget, own) = (Budget::<Plain>::new(), Spending::new());
            let share = Share { weight, all: 100 };
            budget.set(rate);
            let (mut now, mut written) = (5 * SECOND, 0u64);
            let start = now;
            for pause in pauses {
                now += pause;
                while budget.spend(&own, share, 1, now) {
                    written += 1;
                }
                let seconds = (now - start) as f64 / SECOND as f64;
                let allowed = (seconds + 1.0) * rate as f64;
                prop_assert!(written as f64 <= allowed * 1.001 + 1.0);
                // The first page is written after up to an eighth of a second, and all but the share
                // of the first second is kept.
                let wanted = allowed - rate as f64 * (5.0 / 8.0) - 1.0;
                prop_assert!(written as f64 >= wanted * 0.999);
            }
        }

        /// A writer that writes less than its share is never refused, although another one writes as
        /// much as it may.
        #[test]
        fn a_share_is_kept_from_greedy_writers(
            rate in 1000u64..100_000,
            pauses in prop::collection::vec(SECOND / 100..SECOND / 8, 50..100),
        ) {
            let (budget, greedy, modest) = (Budget::<Plain>::new(), Spending::new(), Spending::new());
            budget.set(rate);
            let mut now = 5 * SECOND;
            for pause in pauses {
                now += pause;
                while budget.spend(&greedy, HALF, 1, now) {}
                // Nine tenths of what half of the rate allows.
                let pages = rate * pause / SECOND * 45 / 100;
                prop_assert!((0..pages).all(|_| budget.spend(&modest, HALF, 1, now)));
            }
        }

        /// Two writers that write as much as they may each get at least their shares.
        #[test]
        fn greedy_writers_divide_by_weight(weight in 10u64..=90, first in 0u64..2) {
            let budget = Budget::<Plain>::new();
            let writers = [
                (Spending::new(), Share { weight, all: 100 }),
                (Spending::new(), Share { weight: 100 - weight, all: 100 }),
            ];
            let mut written = [0u64; 2];
            let rate = 10_000;
            budget.set(rate);
            for step in 0..20_000u64 {
                let now = 5 * SECOND + step * SECOND / 1000;
                for at in [first as usize, 1 - first as usize] {
                    let (writer, share) = &writers[at];
                    while budget.spend(writer, *share, 1, now) {
                        written[at] += 1;
                    }
                }
            }
            let all = (written[0] + written[1]) as f64;
            prop_assert!(all >= 20.0 * rate as f64);
            let part = written[0] as f64 / all * 100.0;
            prop_assert!((part - weight as f64).abs() <= 5.0, "{part} of {weight}");
        }
    }
}
