// SPDX-License-Identifier: GPL-2.0-only

//! A budget for the pages that are written to a device, because flash wears out.

use crate::number::Number;

/// Nanoseconds of a second. What was not written in a second may be written in the next one.
const SECOND: u64 = 1_000_000_000;

/// A rate of pages. Processors share it without a lock.
#[derive(Debug)]
pub struct Budget<N> {
    /// Nanoseconds for each page; 0 if there is no limit.
    page_ns: N,
    /// The time, in nanoseconds, until which the pages written so far use up the budget.
    spent_until: N,
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

    /// Takes back pages that were counted and are not written.
    pub fn give_back(&self, pages: u64) {
        let page_ns = self.page_ns.load();
        self.spent_until.subtract(pages.saturating_mul(page_ns));
    }

    /// Returns whether `pages` may be written at `now`, in nanoseconds, and counts them if so.
    pub fn spend(&self, pages: u64, now: u64) -> bool {
        let page_ns = self.page_ns.load();
        if page_ns == 0 {
            return true;
        }
        loop {
            let before = self.spent_until.load();
            let after = before
                .max(now)
                .saturating_add(pages.saturating_mul(page_ns));
            // What costs more than a second may be written when all before it is paid for.
            if after > now.saturating_add(SECOND) && before > now {
                return false;
            }
            if self.spent_until.replace(before, after).is_ok() {
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

    #[test]
    fn without_a_limit_all_may_be_written() {
        let budget = Budget::<Plain>::new();
        assert!(budget.spend(u64::MAX, 0));
        budget.set(10);
        assert!(budget.spend(10, 0) && !budget.spend(1, 0));
        assert!(budget.spend(50, 2 * SECOND) && !budget.spend(1, 6 * SECOND));
        assert!(budget.spend(1, 7 * SECOND));
        budget.give_back(10);
        assert!(budget.spend(10, 7 * SECOND));
        budget.set(0);
        assert!(budget.spend(1 << 40, 0));
    }

    proptest! {
        /// In any time, no more is written than the rate allows and what one second more does; and a
        /// writer that never stops uses all of it.
        #[test]
        fn the_rate_is_kept(rate in 100u64..100_000, pauses in prop::collection::vec(1u64..SECOND / 8, 100..200)) {
            let budget = Budget::<Plain>::new();
            budget.set(rate);
            let (mut now, mut written) = (5 * SECOND, 0u64);
            let start = now;
            for pause in pauses {
                now += pause;
                while budget.spend(1, now) {
                    written += 1;
                }
                let seconds = (now - start) as f64 / SECOND as f64;
                let allowed = (seconds + 1.0) * rate as f64;
                prop_assert!(written as f64 <= allowed * 1.001 + 1.0);
                // The first page is written after up to an eighth of a second.
                let wanted = allowed - rate as f64 / 8.0 - 1.0;
                prop_assert!(written as f64 >= wanted * 0.999);
            }
        }
    }
}
