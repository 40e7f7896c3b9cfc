// SPDX-License-Identifier: GPL-2.0

//! How much of its capacity the tier may use while the host is short of memory.
//!
//! The capacity is what the administrator allows, the limit what the host can spare. What is
//! divided among VMs is the lesser of the two: so weights rule when memory is short, as they do
//! when the tier is full.
//!
//! The limit falls to what the tier holds when the host takes memory back, or has none for a put.
//! It rises slowly, and only while memory lies idle: a tier that took at once what it just gave
//! would keep its host reclaiming.

use crate::number::Number;

/// Milliseconds between two rises, and from the last fall to the first of them.
const TICK: u64 = 100;

/// The part of the host's idle memory that the tier may take with a rise.
const PART: u64 = 8;

/// What the host can spare.
#[derive(Debug)]
pub struct Limit<N> {
    /// More than any capacity while the host is not short.
    pages: N,
    /// When it last fell, or was due to rise, in milliseconds.
    since: N,
}

/// The tier, when its limit is about to rise.
#[derive(Clone, Copy, Debug)]
pub struct Books {
    /// Pages the administrator allows.
    pub capacity: u64,
    /// Pages held.
    pub used: u64,
    /// Pages of an eviction.
    pub batch: u64,
}

impl<N: Number> Limit<N> {
    /// Of a host that is not short.
    pub fn new() -> Self {
        Self {
            pages: N::new(u64::MAX),
            since: N::new(0),
        }
    }

    /// Pages that may be used of a capacity.
    pub fn of(&self, capacity: u64) -> u64 {
        self.pages.load().min(capacity)
    }

    /// The host is short at `now` and can spare no more than these pages.
    pub fn lower(&self, to: u64, now: u64) {
        // First, so that a rise that is under way finds that its time has not come.
        self.since.swap(now);
        let mut pages = self.pages.load();
        while pages > to {
            match self.pages.replace(pages, to) {
                Ok(()) => return,
                Err(changed) => pages = changed,
            }
        }
    }

    /// Raises the limit if it is time to, and returns whether it did. `spare` returns the number of
    /// idle pages of the host beyond its own reserve, and is called only if that matters.
    pub fn recover(&self, now: u64, tier: &Books, spare: impl FnOnce() -> u64) -> bool {
        let pages = self.pages.load();
        let since = self.since.load();
        let ticks = now.saturating_sub(since) / TICK;
        if pages >= tier.capacity || ticks == 0 {
            return false;
        }
        // Of several callers at a time only one raises the limit.
        if self.since.replace(since, since + ticks * TICK).is_err() {
            return false;
        }
        let spare = spare();
        let step = tier.batch.max(spare / PART).saturating_mul(ticks);
        let all = tier.used.saturating_add(spare);
        let raised = pages.saturating_add(step).min(all);
        let raised = if raised >= tier.capacity {
            u64::MAX
        } else {
            raised
        };
        // If the limit fell since it was read, it stays where it is.
        raised > pages && self.pages.replace(pages, raised).is_ok()
    }
}

impl<N: Number> Default for Limit<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::tests::Plain;
    use proptest::prelude::*;

    const TIER: Books = Books {
        capacity: 1 << 20,
        used: 1000,
        batch: 512,
    };

    fn lowered(to: u64, now: u64) -> Limit<Plain> {
        let limit = Limit::new();
        limit.lower(to, now);
        limit
    }

    #[test]
    fn a_host_that_is_not_short_gives_all() {
        let limit = Limit::<Plain>::new();
        assert_eq!(limit.of(TIER.capacity), TIER.capacity);
        let never = || -> u64 { unreachable!("idle memory does not matter") };
        assert!(!limit.recover(1 << 40, &TIER, never));
    }

    #[test]
    fn it_falls_at_once_and_only_falls() {
        let limit = lowered(1000, 0);
        limit.lower(2000, 0);
        assert_eq!(limit.of(TIER.capacity), 1000);
        limit.lower(10, 0);
        assert_eq!(limit.of(TIER.capacity), 10);
        assert_eq!(limit.of(5), 5);
    }

    #[test]
    fn it_rises_by_a_batch_in_a_tick_of_calm() {
        let limit = lowered(1000, 7000);
        let idle = || 2000;
        assert!(!limit.recover(7099, &TIER, idle));
        assert!(limit.recover(7100, &TIER, idle));
        assert_eq!(limit.of(TIER.capacity), 1512);
        // The same tick raises it once.
        assert!(!limit.recover(7100, &TIER, idle));
        assert!(limit.recover(7399, &TIER, idle));
        assert_eq!(limit.of(TIER.capacity), 1000 + 3 * 512);
        // Asked for again: calm is over.
        limit.lower(TIER.capacity, 7399);
        assert!(!limit.recover(7498, &TIER, idle));
    }

    #[test]
    fn it_rises_no_further_than_memory_lies_idle() {
        let limit = lowered(1000, 0);
        assert!(!limit.recover(1 << 30, &TIER, || 0));
        assert!(limit.recover(1 << 31, &TIER, || 100));
        assert_eq!(limit.of(TIER.capacity), 1100);
    }

    #[test]
    fn all_of_it_is_back_when_memory_lies_idle_for_long() {
        let limit = lowered(1000, 0);
        for tick in 1..=16 {
            limit.recover(tick * TICK, &TIER, || 2 << 20);
        }
        assert_eq!(limit.of(u64::MAX), u64::MAX);
    }

    proptest! {
        /// It never promises what the host does not have, and never more than was idle.
        #[test]
        fn a_rise_is_within_what_lies_idle(
            to in 0u64..1 << 21, used in 0u64..1 << 21, spare: u64,
            now in 0u64..1 << 50, batch in 1u64..1 << 14,
        ) {
            let limit = lowered(to, 0);
            let tier = Books { used, batch, ..TIER };
            let rose = limit.recover(now, &tier, || spare);
            let pages = limit.of(tier.capacity);
            prop_assert_eq!(rose, pages > to.min(tier.capacity));
            prop_assert!(pages <= to.max(used.saturating_add(spare)));
            prop_assert!(now >= TICK || !rose);
        }
    }
}
