// SPDX-License-Identifier: GPL-2.0

//! Puts that do not pay are thinned out.
//!
//! A page costs about the same to put as to get, and a hit saves a read of the disk, which is
//! worth tens of copies. A pool that has fewer hits than one in [`POOR`] puts, over a time in which
//! its content was replaced twice, puts half as many from then on. A time in which next to nothing
//! was read proves nothing: the page cache of an idle container is pushed out for later.

/// Puts for one hit above which a pool is throttled.
pub const POOR: u64 = 64;

/// Puts for one hit below which it is let go a step.
const RICH: u64 = 32;

/// Smallest window in puts.
const LEAST_WINDOW: u64 = 1024;

/// One put of `1 << STRICTEST` is left at the strictest.
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
    /// A page was read that the guest had not; `hit` if the host had it.
    pub fn missed(&mut self, hit: bool) {
        // What was read before the first put says nothing about puts.
        self.reads += u64::from(self.puts > 0);
        self.hits += u64::from(hit);
    }

    /// Whether `pages` pages, the first of which is `page`, may be put into a full pool of
    /// `capacity` pages. They are chosen by hash: the same ones are let in again, so that a part of
    /// a loop finds all its pages.
    pub fn allows(&mut self, page: u64, pages: u64, capacity: u64) -> bool {
        if (page >> 20) & ((1 << self.level) - 1) != 0 {
            return false;
        }
        self.puts += pages;
        if self.puts >= capacity.saturating_mul(2).max(LEAST_WINDOW) >> self.level {
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

    /// One page of `1 << level` is let in.
    pub const fn level(&self) -> u32 {
        self.level
    }
}
