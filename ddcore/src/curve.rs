// SPDX-License-Identifier: GPL-2.0-only

//! Hit curve of a container: the hits that it would have with other sizes of its pool, sampled in
//! bounded memory.
//!
//! Weights are chosen by the curve of *hits as a function of the host's pages*. It is not the
//! miss-ratio curve of the container's reads, because the guest's page cache has served most of
//! those. Therefore the reuse distance of a read that missed the guest's page cache is measured in
//! a model of the exclusive store. A page enters at the top of a stack when it leaves the guest
//! ([`Curve::left`]), whether it was admitted or not, and is removed from the stack when it is read
//! again ([`Curve::read`]). Its position, counted from the top, is the size of the smallest FIFO
//! store that would still have had it.
//!
//! The model is simplified in one way: pages above it that were read back in the meantime are not
//! counted, as if each of them had been replaced by a page that a smaller store had evicted. In a
//! guest whose page cache is full, each such read makes another page leave, so that the two agree.
//!
//! The method is SHARDS (Waldspurger et al., FAST '15) with a bounded number of keys:
//!
//! - **filter first**: keys are sampled by hash, `hash >> (64 - level) == 0`. A key that is not
//!   sampled costs a shift and a compare;
//! - **bounded**: when all slots are taken the rate is halved. The keys that are no longer sampled
//!   are removed a few at a time by the following operations, and no distance is counted until all
//!   of them are removed;
//! - **constant work**: positions are counted by [`GROUPS`] groups of similar age (MIMIR, SoCC '14)
//!   instead of a tree. A position is off by at most one group.
//!
//! The caller provides and locks the slots; no operation allocates.

mod histogram;
#[cfg(test)]
mod tests;

pub use histogram::{Point, POINTS};

use histogram::Histogram;

/// Number of groups of similar age.
pub const GROUPS: usize = 64;

/// Maximum number of slots. Links have 16 bits.
pub const MAX_SLOTS: usize = u16::MAX as usize - 1;

/// Number of slots that each sampled operation examines after the rate was halved.
const SWEEP: usize = 4;

/// The null link. A link is the number of a slot plus one, so that a zeroed slot is empty.
const NONE: u16 = 0;

/// Memory for one sampled key, 16 bytes. A slot of zeroes is empty.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Slot {
    /// The part of the hash that identifies the key. Zero in an empty slot.
    key: u64,
    /// The group that the key entered, as a serial number that may wrap around.
    epoch: u32,
    chain: u16,
    /// Link to the first slot of the hash bucket with the number of this slot. It is unrelated to
    /// the other fields.
    head: u16,
}

/// The sampled curve of one container. `S` is memory for the slots, all [`Slot::default`] at first.
#[derive(Clone, Debug)]
pub struct Curve<S> {
    slots: S,
    histogram: Histogram,
    /// Number of keys in each group. Group `epoch` is at `epoch % GROUPS`.
    counts: [u16; GROUPS],
    epoch: u32,
    /// Number of keys that entered the youngest group.
    filled: u16,
    used: u16,
    free: u16,
    /// Number of slots that have ever been used.
    high: u16,
    level: u8,
    /// The slot, counted from one, at which the removal of keys that are no longer sampled
    /// continues; 0 if no such keys remain.
    sweep: u16,
    reads: u64,
    /// Number of reads whose distance is counted if they are sampled.
    expected: u64,
    /// Estimate of `expected` from the samples, each of which stands for `1 << level` reads.
    weight: u64,
    /// Number of samples.
    sampled: u64,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Curve<S> {
    /// Creates an empty curve. It uses at most [`MAX_SLOTS`] slots; with 2048 slots the error is
    /// about 2 %.
    pub const fn new(slots: S) -> Self {
        Self {
            slots,
            histogram: Histogram::new(),
            counts: [0; GROUPS],
            epoch: 0,
            filled: 0,
            used: 0,
            free: NONE,
            high: 0,
            level: 0,
            sweep: 0,
            reads: 0,
            expected: 0,
            weight: 0,
            sampled: 0,
        }
    }

    /// Records a clean page that left the guest's page cache by reclaim. `hash` must be well mixed.
    #[inline]
    pub fn left(&mut self, hash: u64) {
        if self.is_sampled(hash) {
            self.insert(hash);
        }
    }

    /// Records the read of a page that the guest's page cache did not have.
    #[inline]
    pub fn read(&mut self, hash: u64) {
        self.reads = self.reads.saturating_add(1);
        self.expected += u64::from(self.sweep == 0);
        if self.is_sampled(hash) {
            self.measure(hash);
        }
    }

    /// Records that a page was truncated or overwritten, so that a later read of it does not count
    /// as reuse.
    #[inline]
    pub fn gone(&mut self, hash: u64) {
        if self.is_sampled(hash) {
            self.remove(hash);
        }
    }

    /// Returns the hits that a store of `pages` pages would have had.
    pub fn hits(&self, pages: u64) -> u64 {
        self.adjust(self.histogram.upto(pages))
    }

    /// Returns the number of reads that missed the guest's page cache.
    pub const fn reads(&self) -> u64 {
        self.reads
    }

    /// Returns the curve as [`POINTS`] points of rising size.
    pub fn points(&self) -> impl Iterator<Item = Point> + '_ {
        self.histogram.points().map(|point| Point {
            hits: self.adjust(point.hits),
            ..point
        })
    }

    /// Returns the level: one key of `1 << level` is sampled.
    pub const fn level(&self) -> u32 {
        self.level as u32
    }

    /// Returns the standard error of `hits / reads` in parts per thousand: half a group, plus the
    /// error of independent samples at the worst ratio of one half. Reads of one key are not
    /// independent, so that at most as many samples count as there are keys, which is at least half
    /// of the slots.
    pub fn error_permille(&self) -> u32 {
        if self.sampled == 0 {
            return 1000;
        }
        let groups = 500 / GROUPS as u64;
        let samples = self.sampled.min(self.capacity() as u64 / 2).max(1);
        (groups + 500 / samples.isqrt()) as u32
    }

    /// Halves all counts, so that the curve follows the load of the container.
    pub fn fade(&mut self) {
        self.histogram.halve();
        self.reads /= 2;
        self.expected /= 2;
        self.weight /= 2;
        self.sampled /= 2;
    }

    /// Corrects for hot keys. Sampling by key covers more than the expected number of reads if hot
    /// keys are in the sample, and fewer if they are not. Because hot keys have short distances,
    /// the difference is added to these (SHARDS-adj).
    fn adjust(&self, hits: u64) -> u64 {
        (hits + self.expected)
            .saturating_sub(self.weight)
            .min(self.reads)
    }

    const fn is_sampled(&self, hash: u64) -> bool {
        // The shift is split, because the level may be zero and a shift by 64 is not allowed.
        (hash >> 1) >> (63 - self.level) == 0
    }

    fn capacity(&self) -> usize {
        self.slots.as_ref().len().min(MAX_SLOTS)
    }

    fn insert(&mut self, hash: u64) {
        self.thin();
        self.remove(hash);
        if self.capacity() == 0 {
            return;
        }
        let Some(at) = self.allocate() else {
            if self.sweep == 0 && self.level < 48 {
                self.level += 1;
                self.sweep = 1;
            }
            return;
        };
        if usize::from(self.filled) >= self.capacity().div_ceil(GROUPS) {
            self.open_group();
        }
        let (bucket, epoch) = (self.bucket(hash), self.epoch);
        let slots = self.slots.as_mut();
        let next = core::mem::replace(&mut slots[bucket].head, at);
        let slot = &mut slots[usize::from(at) - 1];
        (slot.key, slot.epoch, slot.chain) = (hash | 1 << 63, epoch, next);
        self.used += 1;
        self.filled += 1;
        self.counts[epoch as usize % GROUPS] += 1;
    }

    /// Begins a new group, because the youngest one is full, and merges the two oldest groups.
    fn open_group(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.filled = 0;
        let oldest = self.epoch as usize % GROUPS;
        let merged = core::mem::take(&mut self.counts[oldest]);
        self.counts[(oldest + 1) % GROUPS] += merged;
    }

    fn measure(&mut self, hash: u64) {
        self.thin();
        let age = self.remove(hash);
        if self.sweep != 0 {
            return;
        }
        self.sampled += 1;
        self.weight += 1 << self.level;
        let Some(age) = age else {
            return;
        };
        let younger: u64 = (0..age)
            .map(|back| u64::from(self.counts[self.group(back)]))
            .sum();
        let own = u64::from(self.counts[self.group(age)]);
        let place = 1 + younger + own / 2;
        self.histogram.add(place << self.level, 1 << self.level);
    }

    /// Returns the index in `counts` of the group that is `back` groups older than the youngest.
    const fn group(&self, back: u32) -> usize {
        self.epoch.wrapping_sub(back) as usize % GROUPS
    }

    /// Returns the number of groups that are younger than that of `epoch`. Merged groups count as
    /// the oldest.
    fn age(&self, epoch: u32) -> u32 {
        self.epoch.wrapping_sub(epoch).min(GROUPS as u32 - 1)
    }

    fn bucket(&self, hash: u64) -> usize {
        // The upper bits of sampled keys are zero.
        let bucket = (hash as u32 as usize).checked_rem(self.capacity());
        bucket.unwrap_or(0)
    }

    /// Removes a key and returns the number of groups that are younger than its own.
    fn remove(&mut self, hash: u64) -> Option<u32> {
        if self.used == 0 {
            return None;
        }
        let bucket = self.bucket(hash);
        let slots = self.slots.as_mut();
        let mut before = None;
        let mut at = slots[bucket].head;
        while at != NONE && slots[usize::from(at) - 1].key != hash | 1 << 63 {
            before = Some(at);
            at = slots[usize::from(at) - 1].chain;
        }
        if at == NONE {
            return None;
        }
        let next = slots[usize::from(at) - 1].chain;
        match before {
            None => slots[bucket].head = next,
            Some(before) => slots[usize::from(before) - 1].chain = next,
        }
        let slot = &mut slots[usize::from(at) - 1];
        let epoch = slot.epoch;
        (slot.key, slot.chain) = (0, self.free);
        self.free = at;
        self.used -= 1;
        let age = self.age(epoch);
        self.counts[self.group(age)] -= 1;
        Some(age)
    }

    fn allocate(&mut self) -> Option<u16> {
        if self.free != NONE {
            let at = self.free;
            self.free = self.slots.as_ref()[usize::from(at) - 1].chain;
            return Some(at);
        }
        if usize::from(self.high) >= self.capacity() {
            return None;
        }
        self.high += 1;
        Some(self.high)
    }

    /// Removes some of the keys that are no longer sampled because the level has risen.
    fn thin(&mut self) {
        for _ in 0..SWEEP {
            if self.sweep == 0 {
                return;
            }
            let key = self.slots.as_ref()[usize::from(self.sweep) - 1].key & !(1 << 63);
            let empty = self.slots.as_ref()[usize::from(self.sweep) - 1].key == 0;
            if !empty && !self.is_sampled(key) {
                self.remove(key);
            }
            let last = usize::from(self.sweep) >= self.capacity();
            self.sweep = if last { 0 } else { self.sweep + 1 };
        }
    }
}
