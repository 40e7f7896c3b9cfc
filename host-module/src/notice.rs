// SPDX-License-Identifier: GPL-2.0

//! What the host evicted and has not told the guest yet. Bounded; what finds no room is counted.

use crate::charge::charged;
use ddabi::answer::Eviction;
use ddabi::key::PageKey;
use ddcore::store::Removed;
use kernel::prelude::*;

/// Notices kept for a VM.
const CAPACITY: usize = 2048;

/// A queue of notices, oldest first.
pub(crate) struct Notices {
    ring: KVVec<Eviction>,
    first: usize,
    count: usize,
    lost: u32,
}

impl Notices {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            ring: KVVec::from_elem(Eviction::default(), CAPACITY, charged())?,
            first: 0,
            count: 0,
            lost: 0,
        })
    }

    /// Adds a notice; `false` if it found no room.
    pub(crate) fn add(&mut self, notice: &Eviction) -> bool {
        if self.count > 0 {
            let newest = (self.first + self.count - 1) % CAPACITY;
            if extend(&mut self.ring[newest], notice) {
                return true;
            }
        }
        if self.count == CAPACITY {
            self.lost = self.lost.saturating_add(notice.pages);
            return false;
        }
        self.ring[(self.first + self.count) % CAPACITY] = *notice;
        self.count += 1;
        true
    }

    /// Takes up to as many notices as fit, and how many pages were lost since the last time.
    pub(crate) fn take(&mut self, to: &mut [Eviction]) -> (usize, u32) {
        let count = self.count.min(to.len());
        for place in &mut to[..count] {
            *place = self.ring[self.first];
            self.first = (self.first + 1) % CAPACITY;
        }
        self.count -= count;
        (count, core::mem::take(&mut self.lost))
    }
}

/// Notices of one step under a shard's lock, on their way to the queue.
pub(crate) struct Fresh {
    notices: [Eviction; Self::SIZE],
    count: usize,
}

impl Fresh {
    /// As many as pages in a step: none is lost here.
    pub(crate) const SIZE: usize = 32;

    pub(crate) fn new() -> Self {
        const NONE: Eviction = none();
        Self {
            notices: [NONE; Self::SIZE],
            count: 0,
        }
    }

    pub(crate) fn add(&mut self, removed: &Removed) {
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

    pub(crate) fn as_slice(&self) -> &[Eviction] {
        &self.notices[..self.count]
    }
}

const fn none() -> Eviction {
    Eviction {
        file: ddabi::key::FileKey {
            inode: 0,
            filesystem: 0,
            generation: 0,
        },
        index: 0,
        pages: 0,
        reserved: 0,
    }
}

/// Makes one notice of two, if the second goes on where the first ends.
fn extend(first: &mut Eviction, second: &Eviction) -> bool {
    let adjoins = first.file == second.file && first.index + u64::from(first.pages) == second.index;
    if adjoins {
        first.pages = first.pages.saturating_add(second.pages);
    }
    adjoins
}
