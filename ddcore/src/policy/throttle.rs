// SPDX-License-Identifier: GPL-2.0-only

//! Limits the puts of pools that have too few hits.
//!
//! A put costs about as much as a get, and a hit saves a read of the disk, which is worth tens of
//! copies. If a pool has less than one hit in [`POOR`] puts during a window in which its content
//! was replaced twice, its rate of puts is halved. A window with hardly any reads does not count,
//! because the pages of an idle container are reclaimed and put for later use.

/// Number of puts per hit above which a pool is throttled.
pub const POOR: u64 = 64;

/// Number of puts per hit below which the rate is doubled again.
const RICH: u64 = 32;

/// Smallest window in puts.
const MIN_WINDOW: u64 = 1024;

/// At the lowest rate, one put in `1 << STRICTEST` is allowed.
const STRICTEST: u32 = 5;

/// The throttle of one pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Throttle {
    puts: u64,
    reads: u64,
    hits: u64,
    level: u32,
}

impl Throttle {
    /// Records the read of a page that the guest's page cache did not have. `hit` is set if the
    /// host had it.
    pub fn missed(&mut self, hit: bool) {
        // Reads before the first put of a window are not counted.
        self.reads += u64::from(self.puts > 0);
        self.hits += u64::from(hit);
    }

    /// Returns whether `pages` pages, the first of which is `page`, may be put into a full pool of
    /// `capacity` pages. Pages are chosen by hash, so that the same pages of a loop are put each
    /// time and are all found.
    pub fn allows(&mut self, page: u64, pages: u64, capacity: u64) -> bool {
        if (page >> 20) & ((1 << self.level) - 1) != 0 {
            return false;
        }
        self.puts += pages;
        if self.puts >= capacity.saturating_mul(2).max(MIN_WINDOW) >> self.level {
            let was_read = self.reads * POOR >= self.puts;
            if was_read && self.hits * POOR < self.puts {
                self.level = (self.level + 1).min(STRICTEST);
            } else if self.hits * RICH > self.puts {
                self.level = self.level.saturating_sub(1);
            }
            (self.puts, self.reads, self.hits) = (0, 0, 0);
        }
        true
    }

    /// Returns the level: one page in `1 << level` is put.
    pub const fn level(&self) -> u32 {
        self.level
    }
}
