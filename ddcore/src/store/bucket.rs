// SPDX-License-Identifier: GPL-2.0

//! The hash tables: linear hashing, one bucket for each slot ever used and one bucket of files for
//! four. A table grows by splitting one bucket and shrinks by joining two, so that no operation
//! ever rehashes more than a chain.

use super::slot::{place, SEGMENT_FILES};
use super::{Storage, Store, NONE};
use ddabi::key::PageKey;

/// Slots for each bucket of files.
const FILE_SHARE: u32 = 4;

/// The bucket of a hash in a table of `count` buckets.
const fn bucket(hash: u32, count: u32) -> u32 {
    let mask = count.next_power_of_two() - 1;
    let bucket = hash & mask;
    if bucket < count {
        bucket
    } else {
        bucket & mask >> 1
    }
}

/// The bucket that is split to make bucket `number`, which is not 0.
const fn parent(number: u32) -> u32 {
    let mask = number.wrapping_add(1).next_power_of_two() - 1;
    number & mask >> 1
}

/// How many buckets of files a store with `high` buckets has.
const fn file_buckets(high: u32) -> u32 {
    high.div_ceil(FILE_SHARE)
}

impl<S: Storage> Store<S> {
    pub(super) fn find(&self, key: &PageKey) -> u32 {
        if self.used == 0 {
            return NONE;
        }
        let mut slot = *self.head(bucket(self.hasher.page(key), self.high));
        while slot != NONE && self.slot(slot).key() != *key {
            slot = self.slot(slot).chain;
        }
        slot
    }

    pub(super) fn link_bucket(&mut self, slot: u32) {
        let number = self.bucket_of(slot, self.high);
        let head = self.head_mut(number);
        let next = *head;
        *head = slot;
        self.slot_mut(slot).chain = next;
    }

    pub(super) fn unlink_bucket(&mut self, slot: u32) {
        let next = self.slot(slot).chain;
        self.redirect_bucket(slot, next);
    }

    /// Whoever points to `from` in its bucket points to `to` afterwards.
    pub(super) fn redirect_bucket(&mut self, from: u32, to: u32) {
        let number = self.bucket_of(from, self.high);
        let mut at = *self.head(number);
        if at == from {
            *self.head_mut(number) = to;
            return;
        }
        while at != NONE {
            let next = self.slot(at).chain;
            if next == from {
                self.slot_mut(at).chain = to;
                return;
            }
            at = next;
        }
    }

    /// The first leader in the bucket of files of a hash.
    pub(super) fn first_leader(&self, hash: u32) -> u32 {
        *self.file_head(bucket(hash, file_buckets(self.high)))
    }

    pub(super) fn link_leader(&mut self, slot: u32) {
        let number = self.file_bucket_of(slot, file_buckets(self.high));
        let head = self.file_head_mut(number);
        let next = *head;
        *head = slot;
        let slot = self.slot_mut(slot);
        slot.file_chain = next;
        slot.set_leader(true);
    }

    /// Whoever points to the leader `from` in its bucket of files points to `to` afterwards.
    pub(super) fn redirect_leader(&mut self, from: u32, to: u32) {
        let number = self.file_bucket_of(from, file_buckets(self.high));
        let mut at = *self.file_head(number);
        if at == from {
            *self.file_head_mut(number) = to;
            return;
        }
        while at != NONE {
            let next = self.slot(at).file_chain;
            if next == from {
                self.slot_mut(at).file_chain = to;
                return;
            }
            at = next;
        }
    }

    /// Raises `high` by one: splits a bucket, and for every fourth slot a bucket of files.
    pub(super) fn add_buckets(&mut self) {
        let number = self.high;
        self.high += 1;
        let mut at = core::mem::replace(self.head_mut(parent(number)), NONE);
        while at != NONE {
            let next = self.slot(at).chain;
            self.link_bucket(at);
            at = next;
        }
        let (before, after) = (file_buckets(number), file_buckets(self.high));
        if before == after {
            return;
        }
        let mut at = core::mem::replace(self.file_head_mut(parent(before)), NONE);
        while at != NONE {
            let next = self.slot(at).file_chain;
            self.link_leader(at);
            at = next;
        }
    }

    /// Lowers `high` by one: joins the last bucket with the one it was split from.
    pub(super) fn drop_buckets(&mut self) {
        let number = self.high - 1;
        let mut pages = core::mem::replace(self.head_mut(number), NONE);
        let (before, after) = (file_buckets(self.high), file_buckets(number));
        let mut files = if before == after {
            NONE
        } else {
            core::mem::replace(self.file_head_mut(after), NONE)
        };
        self.high = number;
        while pages != NONE {
            let next = self.slot(pages).chain;
            self.link_bucket(pages);
            pages = next;
        }
        while files != NONE {
            let next = self.slot(files).file_chain;
            self.link_leader(files);
            files = next;
        }
    }

    fn bucket_of(&self, slot: u32, count: u32) -> u32 {
        bucket(self.hasher.page(&self.slot(slot).key()), count)
    }

    fn file_bucket_of(&self, slot: u32, count: u32) -> u32 {
        bucket(self.hasher.file(&self.slot(slot).file()), count)
    }

    fn head(&self, number: u32) -> &u32 {
        let (segment, at) = place(number);
        &self.storage.segment(segment).buckets[at]
    }

    fn head_mut(&mut self, number: u32) -> &mut u32 {
        let (segment, at) = place(number);
        &mut self.storage.segment_mut(segment).buckets[at]
    }

    fn file_head(&self, number: u32) -> &u32 {
        let number = number as usize;
        &self.storage.segment(number / SEGMENT_FILES).files[number % SEGMENT_FILES]
    }

    fn file_head_mut(&mut self, number: u32) -> &mut u32 {
        let number = number as usize;
        &mut self.storage.segment_mut(number / SEGMENT_FILES).files[number % SEGMENT_FILES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_moves_hashes_only_between_parent_and_child() {
        for count in 1u32..200 {
            for hash in 0u32..5000 {
                let (before, after) = (bucket(hash, count), bucket(hash, count + 1));
                assert!(before < count && after <= count);
                assert!(before == after || (before == parent(count) && after == count));
            }
        }
    }
}
