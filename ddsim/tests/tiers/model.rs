// SPDX-License-Identifier: GPL-2.0-only

//! A model of one container in both tiers, as the paper and
//! `docs/developers/decisions/0013-ssd-tier.md` describe them, with lists that are searched
//! linearly.

use ddsim::host::TierKind;

/// Number of segments that are kept free, and maximum number that are evicted until one becomes
/// free.
const FREE: usize = 2;
const TRIES: usize = 8;

struct Segment {
    filled: u32,
    is_open: bool,
    pages: Vec<u32>,
}

pub(super) struct Model {
    capacity: u64,
    batch: u64,
    segments: usize,
    size: u32,
    /// Pages of the memory tier, the oldest first.
    memory: Vec<u32>,
    /// Segments that are not free, the oldest first.
    log: Vec<Segment>,
    pub(super) demoted: u64,
    /// Pages evicted from memory and from the SSD tier.
    pub(super) evicted: (u64, u64),
}

impl Model {
    pub(super) fn new(capacity: u64, batch: u64, segments: u32, size: u32) -> Self {
        Self {
            capacity,
            batch,
            segments: segments as usize,
            size,
            memory: Vec::new(),
            log: Vec::new(),
            demoted: 0,
            evicted: (0, 0),
        }
    }

    pub(super) fn used(&self) -> (u64, u64) {
        let ssd: usize = self.log.iter().map(|segment| segment.pages.len()).sum();
        (self.memory.len() as u64, ssd as u64)
    }

    /// Removes a page. Returns the tier that had it.
    pub(super) fn get(&mut self, page: u32) -> Option<TierKind> {
        if let Some(at) = self.memory.iter().position(|held| *held == page) {
            self.memory.remove(at);
            return Some(TierKind::Memory);
        }
        for segment in &mut self.log {
            if let Some(at) = segment.pages.iter().position(|held| *held == page) {
                segment.pages.remove(at);
                self.vacate();
                return Some(TierKind::Ssd);
            }
        }
        None
    }

    pub(super) fn put(&mut self, page: u32) -> bool {
        let is_stored = if self.capacity > 0 {
            while self.memory.len() as u64 >= self.capacity {
                self.demote();
            }
            self.get(page);
            self.memory.push(page);
            true
        } else {
            // The place is allocated before the older copy is removed.
            let has_place = self.place(u32::MAX);
            self.get(page);
            if let Some(placed) = self.pages().find(|held| **held == u32::MAX) {
                *placed = page;
            }
            has_place
        };
        self.reclaim();
        is_stored
    }

    fn pages(&mut self) -> impl Iterator<Item = &mut u32> {
        self.log.iter_mut().flat_map(|segment| &mut segment.pages)
    }

    /// Moves a batch of the oldest pages to the SSD tier. Those that have no place are evicted.
    fn demote(&mut self) {
        let count = (self.batch as usize).min(self.memory.len());
        let batch: Vec<u32> = self.memory.drain(..count).collect();
        for (at, page) in batch.iter().enumerate() {
            if !self.place(*page) {
                self.evicted.0 += (count - at) as u64;
                return;
            }
            self.demoted += 1;
        }
    }

    /// Puts a page at the next place of the log. Returns whether there is one.
    fn place(&mut self, page: u32) -> bool {
        if !self.log.iter().any(|segment| segment.is_open) {
            if self.log.len() == self.segments {
                return false;
            }
            self.log.push(Segment {
                filled: 0,
                is_open: true,
                pages: Vec::new(),
            });
        }
        let Some(segment) = self.log.iter_mut().find(|segment| segment.is_open) else {
            return false;
        };
        segment.filled += 1;
        segment.is_open = segment.filled < self.size;
        segment.pages.push(page);
        true
    }

    /// Evicts the oldest segments until enough are free.
    fn reclaim(&mut self) {
        for _ in 0..TRIES {
            let free = self.segments - self.log.len();
            if free >= FREE.min(self.segments) || self.log.is_empty() {
                return;
            }
            let oldest = self
                .log
                .iter_mut()
                .find(|segment| !segment.pages.is_empty());
            match oldest {
                Some(segment) => {
                    self.evicted.1 += segment.pages.len() as u64;
                    segment.pages.clear();
                    segment.is_open = false;
                }
                None => self
                    .log
                    .iter_mut()
                    .for_each(|segment| segment.is_open = false),
            }
            self.vacate();
        }
    }

    /// Closed segments without pages are free.
    fn vacate(&mut self) {
        self.log
            .retain(|segment| segment.is_open || !segment.pages.is_empty());
    }
}
