// SPDX-License-Identifier: GPL-2.0-only

//! A device of the SSD tier on the heap: a log of segments, each of one pool, as in the kernel
//! module. Writes end at once and never fail.

use crate::host::segments;
use crate::ssd::place::Place;
use crate::ssd::segment::Segment;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::Range;

/// Identifies a pool among those of all sessions: a number of the session, and the number of the
/// pool.
pub type PoolKey = (u64, u32);

/// Number of segments that are kept free, so that pages can be put while others are evicted.
const RESERVE: usize = 2;

/// A device.
#[derive(Debug)]
pub struct Device {
    /// Number of places of a segment.
    size: u32,
    segments: Vec<(Segment, PoolKey)>,
    free: Vec<u32>,
    logs: BTreeMap<PoolKey, Log>,
    /// The stamp of the last segment that was opened.
    sequence: u64,
    written: u64,
}

/// The segments of a device that belong to a pool.
#[derive(Debug, Default)]
struct Log {
    /// The segment that the pool fills.
    open: Option<u32>,
    /// Number of places of its segments.
    places: u64,
}

impl Device {
    /// Creates a device of `segments` segments of `size` places.
    pub fn new(segments: u32, size: u32) -> Self {
        let segment = |_| (Segment::new(size), (0, 0));
        Self {
            size,
            segments: (0..segments).map(segment).collect(),
            free: (0..segments).rev().collect(),
            logs: BTreeMap::new(),
            sequence: 0,
            written: 0,
        }
    }

    /// Returns the number of places of the device.
    pub fn places(&self) -> u64 {
        self.segments.len() as u64 * u64::from(self.size)
    }

    /// Returns the number of places of a segment.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the number of pages that were written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of owners of the device's places.
    pub fn live(&self) -> u64 {
        let live = self.segments.iter().map(|(life, _)| u64::from(life.live()));
        live.sum()
    }

    /// Returns the number of places of a pool's segments.
    pub fn places_of(&self, pool: PoolKey) -> u64 {
        self.logs.get(&pool).map_or(0, |log| log.places)
    }

    /// Allocates up to `pages` consecutive places for a pool. Returns them with the stamp of their
    /// segment, or `None` if no segment is free.
    pub fn fill(&mut self, pool: PoolKey, pages: u32) -> Option<(Range<u64>, u64)> {
        let log = self.logs.entry(pool).or_default();
        let segment = match log.open {
            Some(segment) => segment,
            None => {
                let segment = self.free.pop()?;
                self.sequence += 1;
                let (life, owner) = &mut self.segments[segment as usize];
                life.open(self.sequence);
                *owner = pool;
                log.places += u64::from(self.size);
                segment
            }
        };
        let life = &mut self.segments[segment as usize].0;
        let places = life.fill(pages);
        let written = life.begin_write().map_or(0, |range| range.len());
        life.end_write(true);
        self.written += written as u64;
        log.open = Some(segment).filter(|_| life.is_open());
        let first = u64::from(segment) * u64::from(self.size);
        let place = |at: u32| first + u64::from(at);
        Some((place(places.start)..place(places.end), life.sequence()))
    }

    /// Adds an owner to a place.
    pub fn hold(&mut self, place: u64) {
        let segment = self.segment(place);
        self.segments[segment].0.hold();
    }

    /// Drops an owner of a place.
    pub fn release(&mut self, place: u64) {
        let segment = self.segment(place);
        self.segments[segment].0.release();
        self.vacate(segment);
    }

    /// Closes the segment that a pool fills, if it has this stamp or if `None` is given.
    pub fn close(&mut self, pool: PoolKey, stamp: Option<u64>) {
        let Some(log) = self.logs.get_mut(&pool) else {
            return;
        };
        let segment = log.open.map(|segment| segment as usize);
        let is_it = |segment: &usize| {
            let own = self.segments[*segment].0.sequence();
            stamp.is_none_or(|stamp| stamp == own)
        };
        if let Some(segment) = segment.filter(is_it) {
            log.open = None;
            self.segments[segment].0.close();
            self.vacate(segment);
        }
    }

    /// Returns whether so few segments are free that some have to be evicted.
    fn is_short(&self) -> bool {
        self.free.len() < RESERVE.min(self.segments.len())
    }

    /// Makes a segment free if it is closed and has no pages.
    fn vacate(&mut self, segment: usize) {
        let (life, owner) = &mut self.segments[segment];
        if life.vacate().is_some() {
            if let Some(log) = self.logs.get_mut(owner) {
                log.places -= u64::from(self.size);
            }
            self.free.push(segment as u32);
        }
    }

    fn segment(&self, place: u64) -> usize {
        (place / u64::from(self.size)) as usize
    }

    /// Returns the handle of a place.
    pub const fn handle(number: u64) -> u64 {
        Place { device: 0, number }.handle()
    }
}

/// The pages of a device that is being reclaimed release their places.
impl segments::Device for RefCell<Device> {
    fn segment_size(&self) -> u32 {
        self.borrow().size()
    }

    fn free(&self) -> usize {
        self.borrow().free.len()
    }

    fn is_short(&self) -> bool {
        self.borrow().is_short()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_of_one_pool_and_used_again_when_they_are_empty() {
        let mut device = Device::new(3, 4);
        let (one, other) = ((1, 0), (1, 1));
        assert_eq!(device.fill(one, 3), Some((0..3, 1)));
        assert_eq!(device.fill(other, 9), Some((4..8, 2)));
        assert_eq!(device.fill(one, 3), Some((3..4, 1)));
        assert_eq!((device.places_of(one), device.places_of(other)), (4, 4));
        assert!(device.is_short());
        assert_eq!(device.fill(one, 1), Some((8..9, 3)));
        assert_eq!(device.fill(other, 1), None);
        device.hold(3);
        for place in 0..4 {
            device.release(place);
        }
        assert_eq!(device.fill(other, 1), None);
        device.release(3);
        assert_eq!((device.places_of(one), device.live()), (4, 5));
        assert_eq!(device.fill(other, 2), Some((0..2, 4)));
        // A segment that is being filled is free when it is closed and empty.
        device.release(8);
        device.close(one, Some(1));
        assert_eq!(device.places_of(one), 4);
        device.close(one, Some(3));
        assert_eq!((device.places_of(one), device.written()), (0, 11));
    }
}
