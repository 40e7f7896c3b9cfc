// SPDX-License-Identifier: GPL-2.0-only

//! Limit of the tier while the host is short of memory.
//!
//! The capacity is the number of pages that the administrator allows, and the limit the number that
//! the host can spare. The smaller of the two is divided among the VMs, so that weights determine
//! the victims when memory is short, as they do when the tier is full.
//!
//! When the host takes memory back, or has none for a put, the limit falls to the number of pages
//! that remain. It rises slowly, and only while the host has idle memory, because a tier that grew
//! again at once would keep its host reclaiming.

use crate::number::Number;

/// Milliseconds between two rises of the limit, and from its last fall to the first rise.
const TICK: u64 = 100;

/// A rise takes at most one page in this many of the host's idle memory, or a batch if that is
/// more.
const PART: u64 = 8;

/// The number of pages that the host can spare. Processors share it without a lock.
#[derive(Debug)]
pub struct Limit<N> {
    /// The limit, which is above any capacity while the host is not short of memory.
    pages: N,
    /// The time in milliseconds at which it last fell or was due to rise.
    since: N,
}

/// State of the tier, from which the next rise is computed.
#[derive(Clone, Copy, Debug)]
pub struct TierState {
    /// Number of pages that the administrator allows.
    pub capacity: u64,
    /// Number of pages in the tier.
    pub used: u64,
    /// Number of pages of an eviction batch.
    pub batch: u64,
}

impl<N: Number> Limit<N> {
    /// Creates the limit of a host that is not short of memory.
    pub fn new() -> Self {
        Self {
            pages: N::new(u64::MAX),
            since: N::new(0),
        }
    }

    /// Returns the number of pages of `capacity` that may be used.
    pub fn of(&self, capacity: u64) -> u64 {
        self.pages.load().min(capacity)
    }

    /// Lowers the limit, because the host is short of memory at `now` and can spare no more than
    /// `to` pages. Returns whether the limit was above that.
    pub fn lower(&self, to: u64, now: u64) -> bool {
        // The time is set first, so that a concurrent rise finds that it is not due.
        self.since.swap(now);
        let mut pages = self.pages.load();
        while pages > to {
            match self.pages.replace(pages, to) {
                Ok(()) => return true,
                Err(changed) => pages = changed,
            }
        }
        false
    }

    /// Raises the limit if a rise is due. Returns whether it was raised. `spare` returns the number
    /// of idle pages of the host beyond its own reserve, and is called only if a rise is due.
    pub fn recover(&self, now: u64, tier: &TierState, spare: impl FnOnce() -> u64) -> bool {
        let pages = self.pages.load();
        let since = self.since.load();
        let ticks = now.saturating_sub(since) / TICK;
        if pages >= tier.capacity || ticks == 0 {
            return false;
        }
        // Of concurrent callers, only the one that sets the time raises the limit.
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
        // If the limit has fallen since it was read, it is not raised.
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

    const TIER: TierState = TierState {
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
        assert!(!limit.lower(2000, 0));
        assert_eq!(limit.of(TIER.capacity), 1000);
        assert!(!limit.lower(1000, 0), "the limit did not fall");
        assert!(limit.lower(10, 0));
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
        // Within one tick it rises once.
        assert!(!limit.recover(7100, &TIER, idle));
        assert!(limit.recover(7399, &TIER, idle));
        assert_eq!(limit.of(TIER.capacity), 1000 + 3 * 512);
        // The host takes memory again, so that the waiting time starts again.
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
        /// The limit never rises above the pages in use plus the host's idle memory.
        #[test]
        fn a_rise_is_within_what_lies_idle(
            to in 0u64..1 << 21, used in 0u64..1 << 21, spare: u64,
            now in 0u64..1 << 50, batch in 1u64..1 << 14,
        ) {
            let limit = lowered(to, 0);
            let tier = TierState { used, batch, ..TIER };
            let rose = limit.recover(now, &tier, || spare);
            let pages = limit.of(tier.capacity);
            prop_assert_eq!(rose, pages > to.min(tier.capacity));
            prop_assert!(pages <= to.max(used.saturating_add(spare)));
            prop_assert!(now >= TICK || !rose);
        }
    }
}
