// SPDX-License-Identifier: GPL-2.0-only

//! A block: the pages among 16 neighbours of a file that are in one list, in 32 bytes.

use super::arena::{Arena, Piece};
use super::cohort::{Seat, SEAT_BITS};
use super::hash::BLOCK_BITS;
use super::segment::Kind;
use super::{Index, Storage};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Pages in a block.
pub const BLOCK_PAGES: usize = 1 << BLOCK_BITS;

/// Largest handle. Page frame numbers of 52-bit physical addresses fit.
pub const MAX_HANDLE: u64 = (1 << 40) - 1;

/// The bit of a handle that stands for a place in an order: a block has such handles of one stamp
/// only, so that pages leave the order place by place. Page frame numbers of 51-bit physical
/// addresses are below it.
pub const PLACED: u64 = 1 << 39;

/// Largest number of a list.
pub const MAX_LIST: u16 = u16::MAX;

/// Largest index of a page that is kept, in files of 256 TiB.
pub const MAX_KEPT_INDEX: u64 = (1 << (INDEX.bits + BLOCK_BITS)) - 1;

/// Number of bits of a stamp. Higher bits are cut off, so that ages are distinct over 64 PiB of
/// puts.
pub const STAMP_BITS: u32 = STAMP.bits + u16::BITS;

/// Number of bits of the number of a block or a file. They allow 256 MiB of blocks in a shard.
pub(super) const NUMBER_BITS: u32 = 23;

/// A bit field of a 64-bit word.
#[derive(Clone, Copy)]
pub(super) struct Field {
    shift: u32,
    bits: u32,
}

impl Field {
    pub(super) const fn new(shift: u32, bits: u32) -> Self {
        Self { shift, bits }
    }

    const fn mask(self) -> u64 {
        (1 << self.bits) - 1
    }

    #[inline]
    pub(super) const fn get(self, word: u64) -> u32 {
        (word >> self.shift & self.mask()) as u32
    }

    #[inline]
    pub(super) const fn put(self, value: u32) -> u64 {
        (value as u64 & self.mask()) << self.shift
    }

    #[inline]
    pub(super) fn set(self, word: &mut u64, value: u32) {
        *word = *word & !(self.mask() << self.shift) | self.put(value);
    }
}

const SEAT: Field = Field::new(0, SEAT_BITS);
const PRESENT: Field = Field::new(SEAT_BITS, 16);
const STAMP: Field = Field::new(44, 20);

const FILE: Field = Field::new(0, 32);
const INDEX: Field = Field::new(32, 32);

const BODY: Field = Field::new(0, 32);
const CHAIN: Field = Field::new(32, NUMBER_BITS);
const HIGH: Field = Field::new(56, 8);

/// A block in use, or a free one:
///
/// | field | in use | free |
/// |---|---|---|
/// | `present` | bitmap of the pages that it has; never zero | zero |
/// | `seat`, `stamp` | its place in the order of its list; stamp of its last put | zero |
/// | file, index, list | those of all its pages | zero |
/// | `high` | upper eight bits of all its handles | zero |
/// | `body` | one page: lower bits of its handle; more: number of the leaf with the lower bits | a neighbour in the list of free blocks |
/// | `chain` | next block of a full bucket | the other neighbour |
/// | `hash` | hash of file and index | zero |
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(super) struct Block {
    /// Seat, present pages, lower bits of the stamp.
    age: u64,
    /// File, and index of the block in it.
    name: u64,
    /// Body, chain, upper bits of the handles.
    content: u64,
    /// Stored so that the file need not be read when a bucket is split or a block is evicted.
    hash: u32,
    list: u16,
    /// Upper bits of the stamp.
    stamp: u16,
}

/// The places of a block in its bucket and its list.
pub(super) struct Position {
    /// The next block in the bucket's chain.
    pub(super) chain: u32,
    /// The place in the order of its list.
    pub(super) seat: Seat,
}

/// The pages of a block and their handles.
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
        content BODY body set_body
        content CHAIN chain set_chain
    }

    /// Creates a block.
    #[inline]
    pub(super) fn new(
        (name, hash): (Name, u32),
        (list, stamp): (u16, u64),
        at: &Position,
        content: &Content,
    ) -> Self {
        Self {
            age: SEAT.put(at.seat.0) | PRESENT.put(content.mask.into()) | STAMP.put(stamp as u32),
            name: name.0,
            content: BODY.put(content.body) | CHAIN.put(at.chain) | HIGH.put(content.high),
            hash,
            list,
            stamp: (stamp >> STAMP.bits) as u16,
        }
    }

    #[inline]
    pub(super) const fn name(&self) -> Name {
        Name(self.name)
    }

    #[inline]
    pub(super) const fn hash(&self) -> u32 {
        self.hash
    }

    #[inline]
    pub(super) const fn seat(&self) -> Seat {
        Seat(SEAT.get(self.age))
    }

    #[inline]
    pub(super) fn set_seat(&mut self, seat: Seat) {
        SEAT.set(&mut self.age, seat.0);
    }

    /// Returns the number of its file.
    #[inline]
    pub(super) const fn file(&self) -> u32 {
        FILE.get(self.name)
    }

    pub(super) fn set_file(&mut self, file: u32) {
        FILE.set(&mut self.name, file);
    }

    /// Returns its index in its file, in units of [`BLOCK_PAGES`].
    #[inline]
    pub(super) const fn index(&self) -> u32 {
        INDEX.get(self.name)
    }

    /// Returns the bitmap of its pages.
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

    /// Returns whether its handles are in a leaf.
    #[inline]
    pub(super) const fn has_leaf(&self) -> bool {
        self.present() & self.present().wrapping_sub(1) != 0
    }

    #[inline]
    pub(super) const fn list(&self) -> u16 {
        self.list
    }

    /// Returns the upper bits of its handles.
    #[inline]
    pub(super) const fn high(&self) -> u32 {
        HIGH.get(self.content)
    }

    pub(super) const fn stamp(&self) -> u64 {
        (self.stamp as u64) << STAMP.bits | STAMP.get(self.age) as u64
    }

    /// Returns whether its stamp is the lower bits of a stamp.
    pub(super) const fn has_stamp(&self, stamp: u64) -> bool {
        self.stamp() == stamp & ((1 << STAMP_BITS) - 1)
    }

    pub(super) fn set_owner(&mut self, (list, stamp): (u16, u64)) {
        self.list = list;
        self.stamp = (stamp >> STAMP.bits) as u16;
        STAMP.set(&mut self.age, stamp as u32);
    }
}

/// The file and the index of a block in one word.
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
    fn arena<S>(index: &Index<S>) -> &Arena {
        &index.blocks
    }

    #[inline]
    fn arena_mut<S>(index: &mut Index<S>) -> &mut Arena {
        &mut index.blocks
    }

    #[inline]
    fn free_links(&self) -> (u32, u32) {
        (self.body(), self.chain())
    }

    #[inline]
    fn set_free(&mut self, before: u32, after: u32) {
        *self = Self {
            content: BODY.put(before) | CHAIN.put(after),
            ..Self::default()
        };
    }
}

impl<S: Storage> Index<S> {
    #[inline]
    pub(super) fn block(&self, number: u32) -> &Block {
        self.item(Kind::Blocks, number)
    }

    #[inline]
    pub(super) fn block_mut(&mut self, number: u32) -> &mut Block {
        self.item_mut(Kind::Blocks, number)
    }

    /// Returns whether the blocks take more than the 128 KiB that a processor's nearest caches
    /// hold.
    #[inline]
    pub(super) const fn is_far(&self) -> bool {
        self.blocks.high > 1 << 12
    }

    /// Reads blocks into the processor's caches. The reads do not depend on each other, so that the
    /// processor waits for all of them at a time.
    #[inline]
    pub(super) fn touch(&self, numbers: &[u32]) {
        let sum = numbers.iter().map(|number| self.block(*number).hash);
        core::hint::black_box(sum.fold(0, |sum, word| sum ^ word));
    }

    /// Reads the items that change when the blocks are removed into the processor's caches.
    #[inline]
    pub(super) fn touch_behind(&self, numbers: &[u32]) {
        let sum = numbers.iter().map(|number| {
            let block = self.block(*number);
            let leaf = if block.has_leaf() {
                self.leaf(block.body())[0]
            } else {
                0
            };
            let file = self.file(block.file()).chain();
            leaf ^ file ^ self.cohort(block.seat().cohort()).older()
        });
        core::hint::black_box(sum.fold(0, |sum, word| sum ^ word));
    }

    /// Updates the links to a block that was copied from `from` to `to`.
    pub(super) fn redirect_block(&mut self, from: u32, to: u32) {
        let block = *self.block(from);
        if block.has_leaf() {
            self.set_leaf_owner(block.body(), to);
        }
        self.redirect_member(&block, to);
    }
}

const _: () = assert!(PRESENT.shift + PRESENT.bits <= STAMP.shift);
const _: () = assert!(STAMP.shift + STAMP.bits <= 64 && CHAIN.shift + CHAIN.bits <= HIGH.shift);
const _: () = assert!(size_of::<Block>() == 32);
const _: () =
    assert!(ddabi::pool::MAX_POOLS as usize * ddabi::request::CLASSES <= MAX_LIST as usize + 1);
