// SPDX-License-Identifier: GPL-2.0-only

//! Queue of eviction notices for a guest. It is bounded, and evicted pages whose notices do not fit
//! are counted.

use crate::index::Removed;
use core::ops::DerefMut;
use ddabi::answer::Eviction;
use ddabi::key::{FileKey, PageKey};

/// A queue of notices, oldest first, in memory that the owner provides.
#[derive(Debug)]
pub struct Notices<R> {
    ring: R,
    first: usize,
    count: usize,
    lost: u32,
}

impl<R: DerefMut<Target = [Eviction]>> Notices<R> {
    /// Creates an empty queue with as many places as `ring` has.
    pub fn new(ring: R) -> Self {
        Self {
            ring,
            first: 0,
            count: 0,
            lost: 0,
        }
    }

    /// Adds notices. Returns how many did not fit.
    pub fn add_all(&mut self, notices: &[Eviction]) -> u64 {
        let lost = notices.iter().filter(|notice| !self.add(notice));
        lost.count() as u64
    }

    /// Adds a notice. Returns whether it fits.
    fn add(&mut self, notice: &Eviction) -> bool {
        if let Some(newest) = self.count.checked_sub(1) {
            let newest = self.place(newest);
            let newest = self.ring.get_mut(newest);
            if newest.is_some_and(|newest| extend(newest, notice)) {
                return true;
            }
        }
        if self.count == self.ring.len() {
            self.lost = self.lost.saturating_add(notice.pages);
            return false;
        }
        let place = self.place(self.count);
        self.ring[place] = *notice;
        self.count += 1;
        true
    }

    /// Takes as many notices as fit into `to`. Returns their number, and the number of evicted
    /// pages whose notices were lost since the last call.
    pub fn take(&mut self, to: &mut [Eviction]) -> (usize, u32) {
        let count = self.count.min(to.len());
        for place in &mut to[..count] {
            *place = self.ring[self.first];
            self.first = self.place(1);
        }
        self.count -= count;
        (count, core::mem::take(&mut self.lost))
    }

    /// Counts notices that were taken and did not reach the guest as lost, and the pages whose
    /// notices were lost before.
    pub fn note_lost(&mut self, notices: &[Eviction], before: u32) {
        let pages = notices.iter().map(|notice| notice.pages);
        self.lost = pages.fold(self.lost.saturating_add(before), u32::saturating_add);
    }

    /// Returns the position in the ring of the notice with this number in the queue.
    fn place(&self, number: usize) -> usize {
        let place = self.first + number;
        match place.checked_sub(self.ring.len()) {
            Some(wrapped) => wrapped,
            None => place,
        }
    }
}

/// Notices that are collected in one step under a shard's lock, and added to the queue afterwards.
pub struct Fresh {
    notices: [Eviction; Self::SIZE],
    count: usize,
}

impl Fresh {
    /// Capacity, which is the number of pages of a step, so that no notice is lost here.
    pub const SIZE: usize = 32;

    /// Creates a list without notices.
    #[inline]
    pub fn new() -> Self {
        const NONE: Eviction = Eviction {
            file: FileKey {
                inode: 0,
                filesystem: 0,
                generation: 0,
            },
            index: 0,
            pages: 0,
            reserved: 0,
        };
        Self {
            notices: [NONE; Self::SIZE],
            count: 0,
        }
    }

    /// Adds a page that was evicted.
    #[inline]
    pub fn add(&mut self, removed: &Removed) {
        let PageKey { file, index } = *removed.key();
        let notice = Eviction {
            file,
            index,
            pages: 1,
            reserved: 0,
        };
        if let Some(last) = self.count.checked_sub(1) {
            if extend(&mut self.notices[last], &notice) {
                return;
            }
        }
        if let Some(place) = self.notices.get_mut(self.count) {
            *place = notice;
            self.count += 1;
        }
    }

    /// Removes all notices.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Returns the notices.
    pub fn as_slice(&self) -> &[Eviction] {
        &self.notices[..self.count]
    }
}

impl Default for Fresh {
    fn default() -> Self {
        Self::new()
    }
}

/// Merges the second notice into the first, if it continues the first. Returns whether it did.
fn extend(first: &mut Eviction, second: &Eviction) -> bool {
    let adjoins = first.file == second.file && first.index + u64::from(first.pages) == second.index;
    if adjoins {
        first.pages = first.pages.saturating_add(second.pages);
    }
    adjoins
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(index: u64, pages: u32) -> Eviction {
        Eviction {
            index,
            pages,
            ..Eviction::default()
        }
    }

    fn taken(notices: &mut Notices<Vec<Eviction>>, limit: usize) -> (Vec<(u64, u32)>, u32) {
        let mut to = vec![Eviction::default(); limit];
        let (count, lost) = notices.take(&mut to);
        let told = to[..count].iter();
        (told.map(|one| (one.index, one.pages)).collect(), lost)
    }

    #[test]
    fn notices_that_do_not_reach_the_guest_are_lost() {
        let mut notices = Notices::new(vec![Eviction::default(); 1]);
        notices.add_all(&[notice(0, 3), notice(10, 4)]);
        let mut to = [Eviction::default()];
        assert_eq!(notices.take(&mut to), (1, 4));
        notices.note_lost(&to, 4);
        assert_eq!(taken(&mut notices, 1), (vec![], 7));
    }

    #[test]
    fn neighbours_make_one_notice() {
        let mut notices = Notices::new(vec![Eviction::default(); 2]);
        assert_eq!(notices.add_all(&[notice(0, 1), notice(1, 2)]), 0);
        assert_eq!(taken(&mut notices, 2), (vec![(0, 3)], 0));
    }

    #[test]
    fn the_ring_wraps_around_and_counts_lost_notices() {
        let mut notices = Notices::new(vec![Eviction::default(); 3]);
        for round in 0..10 {
            let of = |number: u64| notice(100 * round + 10 * number, 2);
            assert_eq!(notices.add_all(&[of(0), of(1), of(2), of(3)]), 1);
            let first = 100 * round;
            assert_eq!(
                taken(&mut notices, 2),
                (vec![(first, 2), (first + 10, 2)], 2)
            );
            assert_eq!(taken(&mut notices, 2), (vec![(first + 20, 2)], 0));
        }
        assert_eq!(taken(&mut notices, 2), (vec![], 0));
    }
}
