// SPDX-License-Identifier: GPL-2.0-only

//! The hash tables of blocks and of files: linear hashing, with one bucket for each four numbers
//! ever used. A table grows by splitting one bucket and shrinks by joining two, so that no
//! operation rehashes more than a bucket.
//!
//! A bucket has slots for eight numbers, each with some bits of its hash, so that most lookups need
//! no other memory to find an item, or to find that there is none. If there are more than eight
//! numbers, the last slot has the head of a chain.

use super::arena::NUMBERS;
use super::batch::Part;
use super::block::{Name, NUMBER_BITS};
use super::segment::Kind;
use super::{Index, Storage, NONE};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Slots of a bucket.
const SLOTS: usize = 8;

/// The slot that may have the head of a chain.
const LAST: usize = SLOTS - 1;

/// The slots of a bucket: numbers with tags. Zero is an empty slot, and the head of a chain has no
/// tag.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(transparent)]
pub(super) struct Bucket([u32; SLOTS]);

impl Bucket {
    const NUMBER: u32 = (1 << NUMBER_BITS) - 1;

    /// Returns the tag of a hash, at its place in a slot. A tag consists of bits that do not choose
    /// the bucket, and is never zero.
    #[inline]
    const fn tag(hash: u32) -> u32 {
        hash & !Self::NUMBER | 1 << NUMBER_BITS
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
    /// It has no branches, because a misprediction would stall on the bucket's cache miss.
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

    /// Returns the candidate after `number`, if that is in a slot.
    fn after(&self, number: u32, hash: u32) -> Option<u32> {
        let tag = Self::tag(hash);
        let mut slots = self.0.iter();
        slots.find(|slot| Self::number(**slot) == number && **slot > Self::NUMBER)?;
        let next = slots.find(|slot| **slot & !Self::NUMBER == tag);
        Some(next.map_or(self.chain(), |slot| Self::number(*slot)))
    }

    /// Adds a number. Returns the number behind it in the chain.
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

/// The operations of a table.
macro_rules! table {
    (
        $arena:ident $buckets:ident $item:ident $item_mut:ident;
        $bucket:ident $bucket_mut:ident $link:ident $unlink:ident $redirect:ident $rehash:ident
        $raise:ident $lower:ident; $hash:expr
    ) => {
        impl<S: Storage> Index<S> {
            #[inline]
            fn $bucket(&self, hash: u32) -> &Bucket {
                self.item(Kind::$buckets, self.$arena.bucket(hash))
            }

            #[inline]
            fn $bucket_mut(&mut self, hash: u32) -> &mut Bucket {
                let number = self.$arena.bucket(hash);
                self.item_mut(Kind::$buckets, number)
            }

            /// Adds an item to its bucket. Returns the number behind it in the chain, which the
            /// caller writes into the item.
            #[inline]
            pub(super) fn $link(&mut self, number: u32, hash: u32) -> u32 {
                self.$bucket_mut(hash).add(number, hash)
            }

            /// Removes an item from its bucket. `next` is the number behind it in the chain.
            #[inline]
            pub(super) fn $unlink(&mut self, number: u32, next: u32, hash: u32) {
                if !self.$bucket_mut(hash).replace(number, next) {
                    self.$redirect(number, next, hash);
                }
            }

            /// Makes the slot or item that refers to `from` in its bucket refer to `to`.
            #[inline(never)]
            pub(super) fn $redirect(&mut self, from: u32, to: u32, hash: u32) {
                let bucket = self.$bucket_mut(hash);
                let mut at = bucket.chain();
                if bucket.replace(from, to) {
                    return;
                }
                while at != NONE {
                    let next = self.$item(at).chain();
                    if next == from {
                        self.$item_mut(at).set_chain(to);
                        return;
                    }
                    at = next;
                }
            }

            /// Empties a bucket and adds its items to the buckets of their hashes.
            fn $rehash(&mut self, bucket: u32) {
                let bucket = core::mem::take(self.item_mut::<Bucket>(Kind::$buckets, bucket));
                for mut at in bucket.into_numbers() {
                    while at != NONE {
                        let next = self.$item(at).chain();
                        let hash: u32 = ($hash)(self, at);
                        let chain = self.$link(at, hash);
                        self.$item_mut(at).set_chain(chain);
                        at = next;
                    }
                }
            }

            /// Takes one more number into use, and splits a bucket if another one is due.
            pub(super) fn $raise(&mut self) {
                let before = self.$arena.buckets();
                self.$arena.set_high(self.$arena.high + 1);
                if self.$arena.buckets() > before {
                    self.$rehash(self.$arena.parent());
                }
            }

            /// Takes the highest number out of use, and joins two buckets if one is to go.
            pub(super) fn $lower(&mut self) {
                let before = self.$arena.buckets();
                self.$arena.set_high(self.$arena.high - 1);
                if self.$arena.buckets() < before {
                    self.$rehash(before - 1);
                }
            }
        }
    };
}

table! {
    blocks Buckets block block_mut;
    block_bucket block_bucket_mut link_block unlink_block redirect_bucket rehash_blocks
    raise_blocks lower_blocks;
    |index: &Self, number| index.block(number).hash()
}

table! {
    files FileBuckets file file_mut;
    file_bucket file_bucket_mut link_file unlink_file redirect_file rehash_files
    raise_files lower_files;
    |index: &Self, number| index.hasher.file(index.file(number).key()) as u32
}

impl<S: Storage> Index<S> {
    /// Returns the first candidate for a file.
    #[inline]
    pub(super) fn file_candidate(&self, hash: u32) -> u32 {
        if self.files.used == 0 {
            return NONE;
        }
        self.file_bucket(hash).candidate(hash)
    }

    /// Returns the first candidate for a block.
    #[inline]
    pub(super) fn block_candidate(&self, hash: u32) -> u32 {
        if self.blocks.used == 0 {
            return NONE;
        }
        self.block_bucket(hash).candidate(hash)
    }

    /// Reads a bucket of blocks into the processor's caches.
    #[inline]
    pub(super) fn touch_bucket(&self, hash: u32) {
        core::hint::black_box(self.block_bucket(hash).0[0]);
    }

    /// Returns the next candidate for a file.
    #[inline(never)]
    pub(super) fn next_file(&self, number: u32, hash: u32) -> u32 {
        let next = self.file_bucket(hash).after(number, hash);
        next.unwrap_or_else(|| self.file(number).chain())
    }

    /// Returns the first block with this name among a candidate and those behind it.
    #[inline]
    pub(super) fn find_block_from(&self, mut number: u32, hash: u32, name: Name) -> u32 {
        while number != NONE && self.block(number).name() != name {
            number = self.behind(number, hash);
        }
        number
    }

    /// Returns the next candidate for a block.
    #[inline(never)]
    fn behind(&self, number: u32, hash: u32) -> u32 {
        let next = self.block_bucket(hash).after(number, hash);
        next.unwrap_or_else(|| self.block(number).chain())
    }

    /// Returns the next block with the same name.
    pub(super) fn next_block(&self, number: u32, hash: u32) -> u32 {
        let name = self.block(number).name();
        self.find_block_from(self.behind(number, hash), hash, name)
    }

    /// Returns the first block of a part. There may be others.
    #[inline]
    pub(super) fn find_block(&self, part: &Part, file: u32) -> u32 {
        if file == NONE {
            return NONE;
        }
        self.first_block(part.hash, Name::new(file, part.block))
    }

    /// Returns the first block with a name.
    #[inline]
    pub(super) fn first_block(&self, hash: u32, name: Name) -> u32 {
        self.find_block_from(self.block_candidate(hash), hash, name)
    }
}

/// A bucket has room for the numbers of two buckets like it.
const _: () = assert!(NUMBERS as usize * 2 <= SLOTS && size_of::<Bucket>() == 32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_finds_what_it_has() {
        const SLOTS: u32 = super::SLOTS as u32;
        const LAST: u32 = SLOTS;
        let hash = |number: u32| number << 24;
        let mut bucket = Bucket::default();
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
        let mut bucket = Bucket::default();
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
