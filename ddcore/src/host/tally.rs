// SPDX-License-Identifier: GPL-2.0-only

//! The number of pages of each pool in each tier, over all shards.

use super::list;
use super::session::{Count, Session};
use crate::number::Number;

/// Pages that came to a list, or left it, and are not counted to their pool yet. Consecutive pages
/// mostly belong to one list, and are counted at once.
#[derive(Debug, Default)]
pub struct Tally {
    list: u16,
    pages: u64,
    /// Those that are counted.
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

    /// Notes pages that came to a list. The caller holds the lock of their shard, so that no other
    /// task can take them before they are counted, and calls [`Tally::add`] before it unlocks.
    #[inline]
    pub fn came(&mut self, session: &impl Session, list: u16, pages: usize) {
        if list != self.list {
            self.add(session);
            self.list = list;
        }
        self.pages += pages as u64;
    }

    /// Adds the pages noted by [`Tally::came`] to their pool. Returns all pages that were noted.
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

    /// Notes pages that left a list. The caller calls [`Tally::subtract`] afterwards.
    #[inline]
    pub fn left(&mut self, session: &impl Session, list: u16, pages: usize) {
        if list != self.list {
            self.subtract(session);
            self.list = list;
        }
        self.pages += pages as u64;
    }

    /// Subtracts the pages noted by [`Tally::left`] from their pool. Returns all pages that were
    /// noted.
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
