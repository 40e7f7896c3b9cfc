// SPDX-License-Identifier: GPL-2.0

//! The hash tables of blocks and of files: linear hashing, one bucket for each number ever used. A
//! table grows by splitting one bucket and shrinks by joining two, so that no operation ever
//! rehashes more than a chain.
//!
//! The head of a bucket says beside the first number of the chain what spares a look at it: some
//! bits of its hash, and whether it is the only one.

use super::batch::Part;
use super::block::{Name, NUMBER_BITS};
use super::hash::block_hash;
use super::segment::Kind;
use super::{Storage, Store, NONE};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The head of a bucket: a number, whether its chain ends there, and a tag. Zero is an empty
/// bucket.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(transparent)]
pub(super) struct Head(u32);

impl Head {
    const LAST: u32 = 1 << NUMBER_BITS;
    const TAG_SHIFT: u32 = NUMBER_BITS + 1;
    /// The tag of a number whose hash was not at hand.
    const ANY: u32 = 0;

    const fn new(first: u32, tag: u32, last: bool) -> Self {
        Self(first | (last as u32) << NUMBER_BITS | tag << Self::TAG_SHIFT)
    }

    /// The tag of a hash: bits that do not choose the bucket; never [`Self::ANY`].
    const fn tag(hash: u32) -> u32 {
        hash >> Self::TAG_SHIFT | 1
    }

    pub(super) const fn first(self) -> u32 {
        self.0 & (Self::LAST - 1)
    }

    /// The first number of the chain, if something with this hash may be there or behind it.
    ///
    /// Without branches: a wrong guess would wait for the head, and everything behind it too.
    #[inline]
    pub(super) const fn candidate(self, hash: u32) -> u32 {
        let tag = self.0 >> Self::TAG_SHIFT;
        let other = (tag != Self::ANY) as u32 & (tag != Self::tag(hash)) as u32;
        let excluded = other & self.0 >> NUMBER_BITS;
        self.first() & excluded.wrapping_sub(1)
    }
}

/// The operations of a table.
macro_rules! table {
    (
        $arena:ident $buckets:ident $item:ident $item_mut:ident;
        $head:ident $head_mut:ident $link:ident $unlink:ident $redirect:ident $rehash:ident
        $raise:ident $lower:ident; $hash:expr
    ) => {
        impl<S: Storage> Store<S> {
            fn $head(&self, hash: u32) -> Head {
                *self.item(Kind::$buckets, self.$arena.bucket(hash))
            }

            fn $head_mut(&mut self, hash: u32) -> &mut Head {
                let number = self.$arena.bucket(hash);
                self.item_mut(Kind::$buckets, number)
            }

            /// Puts an item into its bucket.
            pub(super) fn $link(&mut self, number: u32) {
                let hash: u32 = ($hash)(self, number);
                let head = self.$head_mut(hash);
                let next = head.first();
                *head = Head::new(number, Head::tag(hash), next == NONE);
                self.$item_mut(number).set_chain(next);
            }

            /// Takes an item out of its bucket, whose hash and successor are known.
            #[inline]
            pub(super) fn $unlink(&mut self, number: u32, next: u32, hash: u32) {
                let head = self.$head_mut(hash);
                let first = head.first();
                if first == number {
                    // With the tag for any, and perhaps not the last; or empty.
                    *head = Head(next);
                    return;
                }
                let mut at = first;
                while at != NONE {
                    let after = self.$item(at).chain();
                    if after == number {
                        self.$item_mut(at).set_chain(next);
                        break;
                    }
                    at = after;
                }
                if at == first && next == NONE {
                    self.$head_mut(hash).0 |= Head::LAST;
                }
            }

            /// Whoever points to `from` in its bucket points to `to` afterwards.
            pub(super) fn $redirect(&mut self, from: u32, to: u32) {
                let hash: u32 = ($hash)(self, from);
                let head = self.$head_mut(hash);
                let mut at = head.first();
                if at == from {
                    head.0 ^= from ^ to;
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

            /// Empties a bucket; its items go where they belong now.
            fn $rehash(&mut self, bucket: u32) {
                let head = self.item_mut::<Head>(Kind::$buckets, bucket);
                let mut at = core::mem::take(head).first();
                while at != NONE {
                    let next = self.$item(at).chain();
                    self.$link(at);
                    at = next;
                }
            }

            /// One number more, and one bucket.
            pub(super) fn $raise(&mut self) {
                self.$arena.set_high(self.$arena.high + 1);
                self.$rehash(self.$arena.parent());
            }

            /// One number less, and one bucket.
            pub(super) fn $lower(&mut self) {
                self.$arena.set_high(self.$arena.high - 1);
                self.$rehash(self.$arena.high);
            }
        }
    };
}

table! {
    blocks Buckets block block_mut;
    block_head_of block_head_mut link_block unlink_block redirect_bucket rehash_blocks
    raise_blocks lower_blocks;
    |store: &Self, number| {
        let block = store.block(number);
        block_hash(store.file(block.file()).hash(), block.index())
    }
}

table! {
    files FileBuckets file file_mut;
    file_head_of file_head_mut link_file unlink_file redirect_file rehash_files
    raise_files lower_files;
    |store: &Self, number| store.file(number).hash() as u32
}

impl<S: Storage> Store<S> {
    /// The bucket of a file.
    #[inline]
    pub(super) fn file_head(&self, hash: u64) -> Head {
        self.file_head_of(hash as u32)
    }

    /// The bucket of a part's block.
    #[inline]
    pub(super) fn block_head(&self, part: &Part) -> Head {
        self.block_head_of(part.hash)
    }

    /// The first block with this name in a chain from `number` on.
    #[inline]
    pub(super) fn find_block_from(&self, mut number: u32, name: Name) -> u32 {
        while number != NONE {
            let block = self.block(number);
            if block.name() == name {
                break;
            }
            number = block.chain();
        }
        number
    }

    /// The first block of a part: there may be others in the chain behind it.
    pub(super) fn find_block(&self, part: &Part, file: u32) -> u32 {
        if file == NONE {
            return NONE;
        }
        self.first_block(part.hash, Name::new(file, part.block))
    }

    /// The first block with a name.
    #[inline]
    pub(super) fn first_block(&self, hash: u32, name: Name) -> u32 {
        self.find_block_from(self.block_head_of(hash).candidate(hash), name)
    }

    /// Makes a block the first of its bucket; says which one was.
    #[inline]
    pub(super) fn chain_block(&mut self, number: u32, hash: u32) -> u32 {
        let head = self.block_head_mut(hash);
        let next = head.first();
        *head = Head::new(number, Head::tag(hash), next == NONE);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_excludes_only_a_lone_stranger() {
        let hash = 0xabcd_1234;
        let other = !hash;
        let head = |tag, last| Head::new(7, tag, last);
        assert_eq!(Head::default().candidate(hash), NONE);
        assert_eq!(head(Head::tag(hash), true).candidate(hash), 7);
        assert_eq!(head(Head::tag(other), true).candidate(hash), NONE);
        assert_eq!(head(Head::tag(other), false).candidate(hash), 7);
        assert_eq!(head(Head::ANY, true).candidate(hash), 7);
    }
}
