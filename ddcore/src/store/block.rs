// SPDX-License-Identifier: GPL-2.0

//! A block: pages among 16 neighbours of a file that have one owner, in 32 bytes.

use super::arena::{Arena, Piece};
use super::hash::BLOCK_BITS;
use super::segment::Kind;
use super::{Storage, Store, NONE};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Pages in a block.
pub const BLOCK_PAGES: usize = 1 << BLOCK_BITS;

/// Largest handle: page frame numbers of 52-bit physical addresses fit.
pub const MAX_HANDLE: u64 = (1 << 40) - 1;

/// Largest pool number.
pub const MAX_POOL: u16 = (1 << POOL.bits) - 1;

/// Largest index of a page that is kept: that of files up to 256 TiB.
pub const MAX_KEPT_INDEX: u64 = (1 << (INDEX.bits + BLOCK_BITS)) - 1;

/// Bits of a stamp; others are cut off.
pub const STAMP_BITS: u32 = 20;

/// Bits of the number of a block or a file: 128 MiB of blocks in a shard.
pub(super) const NUMBER_BITS: u32 = 22;

/// Some bits of a word.
#[derive(Clone, Copy)]
struct Field {
    shift: u32,
    bits: u32,
}

impl Field {
    const fn new(shift: u32, bits: u32) -> Self {
        Self { shift, bits }
    }

    const fn mask(self) -> u64 {
        (1 << self.bits) - 1
    }

    const fn get(self, word: u64) -> u32 {
        (word >> self.shift & self.mask()) as u32
    }

    const fn put(self, value: u32) -> u64 {
        (value as u64 & self.mask()) << self.shift
    }

    fn set(self, word: &mut u64, value: u32) {
        *word = *word & !(self.mask() << self.shift) | self.put(value);
    }
}

const OLDER: Field = Field::new(0, NUMBER_BITS);
const NEWER: Field = Field::new(22, NUMBER_BITS);
const PRESENT: Field = Field::new(44, 16);

const BEFORE: Field = Field::new(0, NUMBER_BITS);
const AFTER: Field = Field::new(22, NUMBER_BITS);
const POOL: Field = Field::new(44, 10);
const STAMP_LOW: Field = Field::new(54, 10);

const FILE: Field = Field::new(0, NUMBER_BITS);
const INDEX: Field = Field::new(22, 32);
const STAMP_HIGH: Field = Field::new(54, 10);

const BODY: Field = Field::new(0, 32);
const CHAIN: Field = Field::new(32, NUMBER_BITS);
const HIGH: Field = Field::new(54, 8);

/// What the words hold. There are two kinds:
///
/// | field | used | free |
/// |---|---|---|
/// | `present` | the pages it has, a bit each; never zero | zero |
/// | file, index, pool, stamp | of all its pages | zero |
/// | `high` | upper eight bits of all its handles | zero |
/// | `body` | one page: lower bits of its handle; more: number of the leaf with the lower bits | zero |
/// | `chain` | next in the bucket | zero |
/// | `older`, `newer` | neighbours in the pool's FIFO | neighbours in the list of free blocks |
/// | `before`, `after` | neighbours in the list of the file's blocks | zero |
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(super) struct Block {
    /// Neighbours in the FIFO, present pages.
    age: u64,
    /// Neighbours in the file, pool, lower bits of the stamp.
    kin: u64,
    /// File, index in it, upper bits of the stamp.
    name: u64,
    /// Body, chain, upper bits of the handles.
    content: u64,
}

/// Where a block stands on its lists.
pub(super) struct Position {
    /// Next in the bucket.
    pub(super) chain: u32,
    /// Neighbour in the pool's FIFO: it is the newest itself.
    pub(super) older: u32,
    /// Neighbour in the file's list: it is the first itself.
    pub(super) after: u32,
}

/// What a block has.
pub(super) struct Content {
    pub(super) mask: u16,
    pub(super) body: u32,
    pub(super) high: u32,
}

macro_rules! fields {
    ($($word:ident $field:ident $get:ident $set:ident)*) => {
        $(
            #[inline]
            pub(super) const fn $get(&self) -> u32 {
                $field.get(self.$word)
            }

            #[inline]
            pub(super) fn $set(&mut self, value: u32) {
                $field.set(&mut self.$word, value);
            }
        )*
    };
}

impl Block {
    fields! {
        age OLDER older set_older
        age NEWER newer set_newer
        kin BEFORE before set_before
        kin AFTER after set_after
        content BODY body set_body
        content CHAIN chain set_chain
    }

    /// A block at the newest end of its pool and at the beginning of its file.
    #[inline]
    pub(super) fn new(
        name: Name,
        (pool, stamp): (u16, u32),
        at: &Position,
        content: &Content,
    ) -> Self {
        Self {
            age: OLDER.put(at.older) | PRESENT.put(content.mask.into()),
            kin: AFTER.put(at.after) | POOL.put(pool.into()) | STAMP_LOW.put(stamp),
            name: name.0 | STAMP_HIGH.put(stamp >> STAMP_LOW.bits),
            content: BODY.put(content.body) | CHAIN.put(at.chain) | HIGH.put(content.high),
        }
    }

    #[inline]
    pub(super) const fn name(&self) -> Name {
        Name(self.name & ((1 << STAMP_HIGH.shift) - 1))
    }

    /// The number of its file.
    #[inline]
    pub(super) const fn file(&self) -> u32 {
        FILE.get(self.name)
    }

    pub(super) fn set_file(&mut self, file: u32) {
        FILE.set(&mut self.name, file);
    }

    /// Its index in its file, in units of [`BLOCK_PAGES`].
    #[inline]
    pub(super) const fn index(&self) -> u32 {
        INDEX.get(self.name)
    }

    /// The pages it has, a bit each.
    #[inline]
    pub(super) const fn present(&self) -> u16 {
        PRESENT.get(self.age) as u16
    }

    #[inline]
    pub(super) fn set_present(&mut self, present: u16) {
        PRESENT.set(&mut self.age, present.into());
    }

    #[inline]
    pub(super) const fn pages(&self) -> u32 {
        self.present().count_ones()
    }

    #[inline]
    pub(super) const fn is_used(&self) -> bool {
        self.present() != 0
    }

    /// Whether the handles are in a leaf.
    #[inline]
    pub(super) const fn has_leaf(&self) -> bool {
        self.present() & self.present().wrapping_sub(1) != 0
    }

    #[inline]
    pub(super) const fn pool(&self) -> u16 {
        POOL.get(self.kin) as u16
    }

    /// The upper bits of its handles.
    #[inline]
    pub(super) const fn high(&self) -> u32 {
        HIGH.get(self.content)
    }

    pub(super) const fn stamp(&self) -> u32 {
        STAMP_HIGH.get(self.name) << STAMP_LOW.bits | STAMP_LOW.get(self.kin)
    }

    pub(super) fn set_owner(&mut self, (pool, stamp): (u16, u32)) {
        POOL.set(&mut self.kin, pool.into());
        STAMP_LOW.set(&mut self.kin, stamp);
        STAMP_HIGH.set(&mut self.name, stamp >> STAMP_LOW.bits);
    }
}

/// A block's file and index in one word.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) struct Name(u64);

impl Name {
    #[inline]
    pub(super) const fn new(file: u32, index: u32) -> Self {
        Self(FILE.put(file) | INDEX.put(index))
    }
}

impl Piece for Block {
    const KIND: Kind = Kind::Blocks;
    const LIMIT: usize = 1 << NUMBER_BITS;

    #[inline]
    fn arena<S>(store: &Store<S>) -> &Arena {
        &store.blocks
    }

    #[inline]
    fn arena_mut<S>(store: &mut Store<S>) -> &mut Arena {
        &mut store.blocks
    }

    #[inline]
    fn free_links(&self) -> (u32, u32) {
        (self.older(), self.newer())
    }

    #[inline]
    fn set_free(&mut self, before: u32, after: u32) {
        *self = Self {
            age: OLDER.put(before) | NEWER.put(after),
            ..Self::default()
        };
    }
}

impl<S: Storage> Store<S> {
    #[inline]
    pub(super) fn block(&self, number: u32) -> &Block {
        self.item(Kind::Blocks, number)
    }

    #[inline]
    pub(super) fn block_mut(&mut self, number: u32) -> &mut Block {
        self.item_mut(Kind::Blocks, number)
    }

    /// Whether there are so many blocks that a processor's cache next to it cannot hold them: half
    /// a MiB.
    #[inline]
    pub(super) const fn is_far(&self) -> bool {
        self.blocks.high > 1 << 14
    }

    /// Reads blocks, so that they are near when they are needed. The processor waits for all of
    /// them at a time, for nothing here depends on what is read.
    pub(super) fn touch(&self, numbers: &[u32]) {
        let sum = numbers.iter().map(|number| self.block(*number).kin);
        core::hint::black_box(sum.fold(0, |sum, word| sum ^ word));
    }

    /// After the block in `from` was copied to `to`, its neighbours learn of it.
    pub(super) fn redirect_block(&mut self, from: u32, to: u32) {
        let block = *self.block(from);
        match block.before() {
            NONE => self.file_mut(block.file()).set_first(to),
            before => self.block_mut(before).set_after(to),
        }
        if block.after() != NONE {
            self.block_mut(block.after()).set_before(to);
        }
        if block.has_leaf() {
            self.set_leaf_owner(block.body(), to);
        }
        self.redirect_fifo(&block, to);
    }
}

const _: () = assert!(size_of::<Block>() == 32);
const _: () = assert!(ddabi::pool::MAX_POOLS <= MAX_POOL as u32 + 1);
