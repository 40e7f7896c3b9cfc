// SPDX-License-Identifier: GPL-2.0-only

//! The hash table of files: linear hashing, with one bucket for each two numbers that have ever
//! been used.
//!
//! A bucket has slots for four numbers, each with some bits of its hash, so that most lookups need
//! no other memory to find an item, or to find that there is none. If there are more than four
//! numbers, the last slot is the head of a chain.

use super::arena::NUMBERS;
use super::block::FILE_BITS;
use super::segment::Kind;
use super::{Index, Storage, NONE};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Slots of a bucket.
const SLOTS: usize = 4;

/// The slot that may have the head of a chain.
const LAST: usize = SLOTS - 1;

/// The slots of a bucket: numbers with tags. Zero is an empty slot, and the head of a chain has no
/// tag.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(transparent)]
pub(super) struct FileBucket([u32; SLOTS]);

impl FileBucket {
    const NUMBER: u32 = (1 << FILE_BITS) - 1;

    /// Returns the tag of a hash, shifted to its position in a slot. A tag consists of bits that do
    /// not select the bucket, and is never zero.
    #[inline]
    const fn tag(hash: u32) -> u32 {
        hash & !Self::NUMBER | 1 << FILE_BITS
    }

    #[inline]
    const fn number(slot: u32) -> u32 {
        slot & Self::NUMBER
    }

    /// Returns the head of the chain.
    #[inline]
    const fn chain(&self) -> u32 {
        let last = self.0[LAST];
        if last > Self::NUMBER {
            NONE
        } else {
            last
        }
    }

    /// Returns the number whose tag matches the hash, or the head of the chain.
    ///
    /// The function has no branches, because a misprediction would stall on the cache miss of the
    /// bucket.
    #[inline]
    pub(super) fn candidate(&self, hash: u32) -> u32 {
        let tag = Self::tag(hash);
        let mut hits = 0;
        for (at, slot) in self.0.iter().enumerate() {
            hits |= u32::from(slot & !Self::NUMBER == tag) << at;
        }
        let slot = self.0[hits.trailing_zeros() as usize % SLOTS];
        if hits == 0 {
            self.chain()
        } else {
            Self::number(slot)
        }
    }

    /// Returns the candidate after `number`, if `number` is in a slot.
    fn after(&self, number: u32, hash: u32) -> Option<u32> {
        let tag = Self::tag(hash);
        let mut slots = self.0.iter();
        slots.find(|slot| Self::number(**slot) == number && **slot > Self::NUMBER)?;
        let next = slots.find(|slot| **slot & !Self::NUMBER == tag);
        Some(next.map_or(self.chain(), |slot| Self::number(*slot)))
    }

    /// Adds a number. Returns the next number in the chain.
    #[inline]
    pub(super) fn add(&mut self, number: u32, hash: u32) -> u32 {
        for slot in &mut self.0 {
            if *slot == 0 {
                *slot = number | Self::tag(hash);
                return NONE;
            }
        }
        let last = &mut self.0[LAST];
        let next = Self::number(*last);
        *last = number;
        next
    }

    /// Replaces `from` by `to`, if it is in a slot. If `to` is [`NONE`] the slot becomes empty.
    /// Returns whether `from` was found.
    #[inline]
    fn replace(&mut self, from: u32, to: u32) -> bool {
        for slot in &mut self.0 {
            if Self::number(*slot) == from {
                *slot = if to == NONE { 0 } else { *slot ^ from ^ to };
                return true;
            }
        }
        false
    }

    /// Returns the numbers in slots, and the head of the chain in the last one.
    fn into_numbers(self) -> [u32; SLOTS] {
        self.0.map(Self::number)
    }
}

impl<S: Storage> Index<S> {
    #[inline]
    fn file_bucket(&self, hash: u32) -> &FileBucket {
        self.item(Kind::FileBuckets, self.files.spread.bucket(hash))
    }

    #[inline]
    fn file_bucket_mut(&mut self, hash: u32) -> &mut FileBucket {
        let number = self.files.spread.bucket(hash);
        self.item_mut(Kind::FileBuckets, number)
    }

    /// Adds a file to its bucket. Returns the next number in the chain, which the caller writes
    /// into the file.
    pub(super) fn link_file(&mut self, number: u32, hash: u32) -> u32 {
        self.file_bucket_mut(hash).add(number, hash)
    }

    /// Removes a file from its bucket. `next` is the next number in the chain.
    pub(super) fn unlink_file(&mut self, number: u32, next: u32, hash: u32) {
        if !self.file_bucket_mut(hash).replace(number, next) {
            self.redirect_file(number, next, hash);
        }
    }

    /// Makes the slot or file that refers to `from` in its bucket refer to `to`.
    #[inline(never)]
    pub(super) fn redirect_file(&mut self, from: u32, to: u32, hash: u32) {
        let bucket = self.file_bucket_mut(hash);
        let mut at = bucket.chain();
        if bucket.replace(from, to) {
            return;
        }
        while at != NONE {
            let next = self.file(at).chain();
            if next == from {
                self.file_mut(at).set_chain(to);
                return;
            }
            at = next;
        }
    }

    /// Empties a bucket and adds its files to the buckets of their hashes.
    fn rehash_files(&mut self, bucket: u32) {
        let bucket = core::mem::take(self.item_mut::<FileBucket>(Kind::FileBuckets, bucket));
        for mut at in bucket.into_numbers() {
            while at != NONE {
                let file = self.file(at);
                let (next, hash) = (file.chain(), self.hasher.file(file.key()) as u32);
                let chain = self.link_file(at, hash);
                self.file_mut(at).set_chain(chain);
                at = next;
            }
        }
    }

    /// Takes one more number into use, and splits a bucket if that is due.
    pub(super) fn raise_files(&mut self) {
        let before = self.files.spread.buckets();
        self.files.set_high(self.files.high + 1);
        if self.files.spread.buckets() > before {
            self.rehash_files(self.files.spread.parent());
        }
    }

    /// Takes the highest number out of use, and joins two buckets if that is due.
    pub(super) fn lower_files(&mut self) {
        let before = self.files.spread.buckets();
        self.files.set_high(self.files.high - 1);
        if self.files.spread.buckets() < before {
            self.rehash_files(before - 1);
        }
    }

    /// Returns the first candidate for a file.
    #[inline]
    pub(super) fn file_candidate(&self, hash: u32) -> u32 {
        if self.files.used == 0 {
            return NONE;
        }
        self.file_bucket(hash).candidate(hash)
    }

    /// Returns the next candidate for a file.
    #[inline(never)]
    pub(super) fn next_file(&self, number: u32, hash: u32) -> u32 {
        let next = self.file_bucket(hash).after(number, hash);
        next.unwrap_or_else(|| self.file(number).chain())
    }
}

/// A bucket has room for the numbers of two average buckets.
const _: () = assert!(NUMBERS as usize * 2 <= SLOTS && size_of::<FileBucket>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_finds_its_entries() {
        const SLOTS: u32 = super::SLOTS as u32;
        const LAST: u32 = SLOTS;
        let hash = |number: u32| number << 24;
        let mut bucket = FileBucket::default();
        assert_eq!(bucket.candidate(0), NONE);
        for number in 1..=SLOTS {
            assert_eq!(bucket.add(number, hash(number)), NONE);
        }
        for number in 1..=SLOTS {
            assert_eq!(bucket.candidate(hash(number)), number);
        }
        let (more, other) = (SLOTS + 1, SLOTS + 2);
        assert_eq!(bucket.candidate(hash(more)), NONE);
        assert_eq!(bucket.add(more, hash(more)), LAST);
        assert_eq!(bucket.candidate(hash(LAST)), more);
        assert_eq!(bucket.candidate(hash(20)), more);
        assert_eq!(bucket.candidate(hash(2)), 2);
        assert!(bucket.replace(2, NONE) && bucket.replace(more, LAST));
        assert!(!bucket.replace(more, LAST));
        assert_eq!(bucket.add(other, hash(2)), NONE);
        assert_eq!(bucket.candidate(hash(2)), other);
    }

    #[test]
    fn numbers_with_the_same_tag_follow_each_other() {
        const LAST: u32 = super::SLOTS as u32;
        let mut bucket = FileBucket::default();
        for number in 1..=LAST + 1 {
            bucket.add(number, 0);
        }
        assert_eq!(bucket.candidate(0), 1);
        assert_eq!(bucket.after(1, 0), Some(2));
        assert_eq!(bucket.after(LAST - 1, 0), Some(LAST + 1));
        assert_eq!(bucket.after(LAST + 1, 0), None);
        assert_eq!(bucket.after(LAST, 0), None);
    }
}
