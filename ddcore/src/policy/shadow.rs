// SPDX-License-Identifier: GPL-2.0-only

//! Miniature simulations that choose the policy of `adaptive` (Waldspurger et al., ATC '17).
//!
//! A sample of the pages, whole blocks chosen by hash, is simulated in three small caches, one for
//! each way to admit. Their size is the same fraction of the pool's size. They have no data, but a
//! cell of 16 bytes for each block, with a bit for each page. As at the host, the age of a block is
//! that of its newest page, and its pages are evicted together, because a way that keeps pages only
//! since they are in the same blocks as popular ones must be rated accordingly. The way with the
//! best recent result is used for all pages. The paper's FIFO is the default: another way has to
//! beat it by twice the standard error of the comparison, and is abandoned as soon as it falls
//! behind by a fifth of the standard error.

use super::order::{Queue, CLASSES};
use super::{Class, Order, BLOCK_BITS, BLOCK_PLACES};

/// Ways to admit into a full pool.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Way {
    /// Admits all pages.
    #[default]
    All = 0,
    /// Admits pages that were missed before and are at least of the class of the next victim.
    Equal = 1,
    /// Admits pages of a higher class than the next victim.
    Better = 2,
}

/// One of this many pages that would be refused is admitted, because otherwise a pool of dead pages
/// would never change.
const TRICKLE: u32 = 32;

impl Way {
    const ALL: [Self; 3] = [Self::All, Self::Equal, Self::Better];

    /// Returns whether a page is admitted to a full pool that would evict from the class `floor`.
    /// `turn` counts the calls.
    pub fn admits(self, class: Class, floor: Class, turn: u32) -> bool {
        match self {
            Self::All => true,
            Self::Equal => class >= floor && class > Class::LOWEST,
            Self::Better => class > floor || turn % TRICKLE == 0,
        }
    }

    /// Returns the class in which a page is kept.
    pub const fn class(self, class: Class) -> Class {
        match self {
            Self::All => Class::LOWEST,
            _ => class,
        }
    }
}

/// A cell of a small cache: a block and its class. A cell of zeroes is empty.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Cell {
    key: u32,
    /// Bitmap of the pages in the cache.
    pages: u16,
    /// The time at which the newest of them was put.
    stamp: u16,
    chain: u16,
    newer: u16,
    older: u16,
    /// Link to the first cell of the hash bucket with the number of this cell, in 14 bits, and the
    /// class of this cell.
    head: u16,
}

/// The null link. A link is the number of a cell plus one.
const NONE: u16 = 0;

/// Number of bits of a link that shares a field with the class.
const LINK_BITS: u32 = 14;

/// Mask of such a link.
const LINK: u16 = (1 << LINK_BITS) - 1;

/// Maximum number of cells of one small cache.
pub const MAX_CELLS: usize = LINK as usize - 1;

/// Minimum number of steps of the stamp in which as many pages are put as a small cache has. Stamps
/// wrap around only after the cache was replaced 64 times, when the highest class counts as old as
/// the lowest.
const STEPS: u32 = 1 << 9;

/// Number of sampled reads between two choices.
const EPOCH: u32 = 256;

/// Unit of the counts, which are fixed-point numbers so that they decay smoothly.
const ONE: i64 = 1 << 10;

/// Counts lose one part in `1 << FADE` at each choice.
const FADE: u32 = 4;

/// Number of puts that cost as much as a hit gains, in the comparison of ways.
const PUT_PRICE: i64 = 50;

#[derive(Clone, Copy, Debug, Default)]
struct Mini {
    oldest: [u16; CLASSES],
    newest: [u16; CLASSES],
    /// Number of pages (not blocks) of each class.
    used: [u32; CLASSES],
    free: u16,
    high: u16,
    /// Number of pages that were put, which serves as the time.
    now: u32,
    turn: u32,
    hits: i64,
    puts: i64,
}

/// The three small caches. `C` is memory for their cells, a third for each, initially
/// [`Cell::default`].
#[derive(Clone, Debug)]
pub struct Shadow<C> {
    cells: C,
    minis: [Mini; 3],
    way: Way,
    reads: u32,
}

impl<C: AsRef<[Cell]> + AsMut<[Cell]>> Shadow<C> {
    /// Creates empty caches.
    pub fn new(cells: C) -> Self {
        Self {
            cells,
            minis: [Mini::default(); 3],
            way: Way::All,
            reads: 0,
        }
    }

    /// Returns the way that is in use now.
    pub const fn way(&self) -> Way {
        self.way
    }

    /// Records the read of a page that the guest's page cache did not have.
    /// `block` is [`super::PageName::block`].
    pub fn read(&mut self, block: u64, capacity: u64) {
        if !self.is_sampled(block, capacity) {
            return;
        }
        let each = self.each();
        for (mini, cells) in self
            .minis
            .iter_mut()
            .zip(self.cells.as_mut().chunks_mut(each))
        {
            if mini.take(cells, Page::of(block)) {
                mini.hits += ONE;
            }
        }
        self.reads += 1;
        if self.reads == EPOCH {
            self.reads = 0;
            self.choose();
        }
    }

    /// Records a page that left the guest by reclaim. `block` is [`super::PageName::block`].
    pub fn left(&mut self, block: u64, class: Class, capacity: u64) {
        if !self.is_sampled(block, capacity) {
            return;
        }
        let each = self.each();
        let limit = (each as u64).min(capacity) as u32;
        let minis = self.minis.iter_mut().zip(Way::ALL);
        for ((mini, way), cells) in minis.zip(self.cells.as_mut().chunks_mut(each)) {
            mini.offer(cells, Page::of(block), way, class, limit);
        }
    }

    fn each(&self) -> usize {
        (self.cells.as_ref().len() / 3).min(MAX_CELLS)
    }

    /// Returns whether the pages of a block are sampled. The rate is the size of a small cache
    /// divided by `capacity`.
    fn is_sampled(&self, block: u64, capacity: u64) -> bool {
        let each = self.each() as u64;
        // The product saturates, because a host may report any capacity.
        each > 0 && (block >> 40).saturating_mul(capacity) < each << 24
    }

    fn choose(&mut self) {
        let worth = |way: Way| {
            let mini = &self.minis[way as usize];
            mini.hits - mini.puts / PUT_PRICE
        };
        let mut best = self.way;
        for way in Way::ALL {
            if worth(way) > worth(best) {
                best = way;
            }
        }
        let hits = |way: Way| self.minis[way as usize].hits;
        // The standard error of a count is its square root. Squares are compared: `ahead` exceeds
        // `fifths` fifths of the standard error.
        let exceeds = |ahead: i64, one: Way, other: Way, fifths: i64| {
            let variance = (hits(one) + hits(other)) * ONE;
            ahead > 0 && ahead * ahead * 25 > variance * fifths * fifths
        };
        let mut way = self.way;
        let ahead = worth(best) - worth(way);
        if exceeds(ahead, best, way, 10) {
            way = best;
        }
        let behind = hits(Way::All) - hits(way);
        if exceeds(behind, Way::All, way, 1) {
            way = Way::All;
        }
        self.way = way;
        for mini in &mut self.minis {
            mini.hits -= mini.hits >> FADE;
            mini.puts -= mini.puts >> FADE;
        }
    }
}

/// A page, as the small caches identify it.
#[derive(Clone, Copy)]
struct Page {
    /// Hash of its block.
    key: u32,
    /// Its position in the block, as a bit.
    bit: u16,
}

impl Page {
    const fn of(block: u64) -> Self {
        Self {
            key: (block >> BLOCK_BITS) as u32,
            bit: 1 << (block & BLOCK_PLACES),
        }
    }
}

impl Cell {
    const fn class(&self) -> usize {
        (self.head >> LINK_BITS) as usize
    }
}

impl Mini {
    fn offer(&mut self, cells: &mut [Cell], page: Page, way: Way, class: Class, limit: u32) {
        self.take(cells, page);
        if self.used.iter().sum::<u32>() >= limit {
            let Some(victim) = self.victim(cells, limit) else {
                return;
            };
            self.turn = self.turn.wrapping_add(1);
            if !way.admits(class, Class::new(victim as u8), self.turn) {
                return;
            }
            let oldest = self.oldest[victim];
            self.remove(cells, oldest);
        }
        self.now = self.now.wrapping_add(1);
        self.insert(cells, page, way.class(class).number(), limit);
        self.puts += ONE;
    }

    /// Returns the time in steps of a stamp.
    const fn stamp(&self, limit: u32) -> u16 {
        (self.now >> (limit / STEPS + 1).ilog2()) as u16
    }

    fn victim(&self, cells: &[Cell], limit: u32) -> Option<usize> {
        let age = |at| {
            let stamp = cell(cells, at).map_or(0, |cell| cell.stamp);
            u64::from(self.stamp(limit).wrapping_sub(stamp))
        };
        let mut queues = [Queue::default(); CLASSES];
        for (class, queue) in queues.iter_mut().enumerate() {
            *queue = Queue {
                used: u64::from(self.used[class]),
                oldest: age(self.oldest[class]),
                newest: age(self.newest[class]),
            };
        }
        Order::Aged.victim(&queues)
    }

    /// Returns the first cell with this key that `wanted` selects.
    fn find(cells: &[Cell], key: u32, wanted: impl Fn(&Cell) -> bool) -> Option<(u16, Cell)> {
        let mut at = cells.get(bucket(cells, key))?.head & LINK;
        while let Some(cell) = cell(cells, at) {
            if cell.key == key && wanted(&cell) {
                return Some((at, cell));
            }
            at = cell.chain;
        }
        None
    }

    /// Removes a page from its block. Returns whether the block had it.
    fn take(&mut self, cells: &mut [Cell], page: Page) -> bool {
        let has_it = |cell: &Cell| cell.pages & page.bit != 0;
        let Some((at, found)) = Self::find(cells, page.key, has_it) else {
            return false;
        };
        if found.pages == page.bit {
            self.remove(cells, at);
        } else {
            cells[usize::from(at) - 1].pages &= !page.bit;
            self.used[found.class()] -= 1;
        }
        true
    }

    /// Adds a page to its block of this class, and makes this block the newest one.
    fn insert(&mut self, cells: &mut [Cell], page: Page, class: usize, limit: u32) {
        let found = Self::find(cells, page.key, |cell| cell.class() == class);
        let (at, pages) = match found {
            Some((at, cell)) => {
                self.unlink(cells, at);
                (at, cell.pages)
            }
            None => match self.allocate(cells, page.key) {
                NONE => return,
                at => (at, 0),
            },
        };
        let older = core::mem::replace(&mut self.newest[class], at);
        match older {
            NONE => self.oldest[class] = at,
            older => cells[usize::from(older) - 1].newer = at,
        }
        let stamp = self.stamp(limit);
        let cell = &mut cells[usize::from(at) - 1];
        (cell.pages, cell.stamp) = (pages | page.bit, stamp);
        (cell.older, cell.newer) = (older, NONE);
        cell.head = cell.head & LINK | (class as u16) << LINK_BITS;
        self.used[class] += 1;
    }

    /// Returns a new cell in the bucket of this key, or [`NONE`] if no cell is free.
    fn allocate(&mut self, cells: &mut [Cell], key: u32) -> u16 {
        let at = match cell(cells, self.free) {
            Some(cell) => core::mem::replace(&mut self.free, cell.chain),
            None if usize::from(self.high) < cells.len() => {
                self.high += 1;
                self.high
            }
            None => return NONE,
        };
        let bucket = bucket(cells, key);
        let chain = cells[bucket].head & LINK;
        cells[bucket].head = cells[bucket].head & !LINK | at;
        let cell = &mut cells[usize::from(at) - 1];
        (cell.key, cell.chain) = (key, chain);
        at
    }

    /// Removes a cell from the list of its class.
    fn unlink(&mut self, cells: &mut [Cell], at: u16) {
        let Some(gone) = cell(cells, at) else {
            return;
        };
        match gone.older {
            NONE => self.oldest[gone.class()] = gone.newer,
            older => cells[usize::from(older) - 1].newer = gone.newer,
        }
        match gone.newer {
            NONE => self.newest[gone.class()] = gone.older,
            newer => cells[usize::from(newer) - 1].older = gone.older,
        }
    }

    /// Removes a block with its pages, and frees the cell.
    fn remove(&mut self, cells: &mut [Cell], at: u16) {
        let Some(gone) = cell(cells, at) else {
            return;
        };
        self.unlink(cells, at);
        self.used[gone.class()] -= gone.pages.count_ones();
        let bucket = bucket(cells, gone.key);
        let mut before = cells[bucket].head & LINK;
        if before == at {
            cells[bucket].head = cells[bucket].head & !LINK | gone.chain;
        } else {
            while let Some(cell) = cell(cells, before) {
                if cell.chain == at {
                    cells[usize::from(before) - 1].chain = gone.chain;
                    break;
                }
                before = cell.chain;
            }
        }
        cells[usize::from(at) - 1].chain = self.free;
        self.free = at;
    }
}

fn bucket(cells: &[Cell], key: u32) -> usize {
    (key as usize).checked_rem(cells.len()).unwrap_or(0)
}

fn cell(cells: &[Cell], at: u16) -> Option<Cell> {
    cells.get(usize::from(at).wrapping_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With about a thousand hits each, the standard error of the difference is about 45. A lead of
    /// two standard errors is required.
    #[test]
    fn a_way_is_chosen_only_for_significant_gains() {
        let chosen = |all: i64, better: i64| {
            let mut shadow = Shadow::new([Cell::default(); 3]);
            shadow.minis[Way::All as usize].hits = all * ONE;
            shadow.minis[Way::Better as usize].hits = better * ONE;
            shadow.choose();
            shadow.way()
        };
        assert_eq!(chosen(1000, 1040), Way::All);
        assert_eq!(chosen(1000, 1085), Way::All);
        assert_eq!(chosen(1000, 1100), Way::Better);
    }
}
