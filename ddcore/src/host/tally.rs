// SPDX-License-Identifier: GPL-2.0-only

//! Counting of the pages of each pool in each tier, over all shards.

use super::list;
use super::session::{Count, Session};
use crate::number::Number;

/// Pages that were added to a list, or removed from it, and are not yet counted for their pool.
/// Consecutive pages mostly belong to one list and are counted together.
#[derive(Debug, Default)]
pub struct Tally {
    list: u16,
    pages: u64,
    /// Pages that are counted already.
    count: Count,
}

impl Tally {
    /// Creates a tally of no pages.
    #[inline]
    pub const fn new() -> Self {
        Self {
            list: 0,
            pages: 0,
            count: Count { memory: 0, ssd: 0 },
        }
    }

    /// Records pages that were added to a list. The caller holds the lock of their shard, so that
    /// no other task can take them before they are counted, and calls [`Tally::add`] before it
    /// unlocks.
    #[inline]
    pub fn added(&mut self, session: &impl Session, list: u16, pages: usize) {
        if list != self.list {
            self.add(session);
            self.list = list;
        }
        self.pages += pages as u64;
    }

    /// Adds the pages recorded by [`Tally::added`] to their pool. Returns the number of all
    /// recorded pages.
    #[inline]
    pub fn add(&mut self, session: &impl Session) -> Count {
        if self.pages > 0 {
            self.count.add(self.list, self.pages as usize);
            if let Some(gauge) = session.gauge(list::pool(self.list)) {
                match list::is_ssd(self.list) {
                    false => gauge.held.add(self.pages),
                    true => gauge.ssd.add(self.pages),
                }
            }
            self.pages = 0;
        }
        self.count
    }

    /// Records pages that were removed from a list, and are counted for its pool already. The
    /// caller calls [`Tally::subtract`] afterwards.
    #[inline]
    pub fn removed(&mut self, session: &impl Session, list: u16, pages: usize) {
        if list != self.list {
            self.subtract(session);
            self.list = list;
        }
        self.pages += pages as u64;
    }

    /// Subtracts the pages recorded by [`Tally::removed`] from their pool. Returns the number of
    /// all recorded pages.
    #[inline]
    pub fn subtract(&mut self, session: &impl Session) -> Count {
        if self.pages > 0 {
            self.count.add(self.list, self.pages as usize);
            if let Some(gauge) = session.gauge(list::pool(self.list)) {
                match list::is_ssd(self.list) {
                    false => gauge.held.subtract(self.pages),
                    true => gauge.ssd.subtract(self.pages),
                }
            }
            self.pages = 0;
        }
        self.count
    }
}
