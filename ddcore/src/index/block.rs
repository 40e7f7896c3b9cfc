// SPDX-License-Identifier: GPL-2.0-only

//! A block, which has 16 bytes and describes those of 16 consecutive pages of a file that are in
//! one list.
//!
//! A block is in a slot of its bucket. Its list is that of its cohort, where its stamp is stored
//! together with its number.

use super::cohort::{Position, COHORT_BITS, SLOT_BITS};
use super::hash::BLOCK_BITS;
use super::segment::Kind;
use super::spill::SPILLED;
use super::{Index, Storage};
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Number of pages of a block.
pub const BLOCK_PAGES: usize = 1 << BLOCK_BITS;

/// Largest handle. Page frame numbers of 52-bit physical addresses fit.
pub const MAX_HANDLE: u64 = (1 << 40) - 1;

/// The bit of a handle which means that it is a place on a device. All such handles of a block have
/// the same stamp, so that the pages of a segment can be removed without those of others. Page
/// frame numbers of 51-bit physical addresses are below this bit.
pub const PLACED: u64 = 1 << 39;

/// Largest number of a list.
pub const MAX_LIST: u16 = u16::MAX;

/// Largest index of a page that is kept, which suffices for files of 256 TiB.
pub const MAX_KEPT_INDEX: u64 = (1 << (INDEX.bits + BLOCK_BITS)) - 1;

/// The largest number of blocks in a shard. Spilled blocks are numbered separately.
pub(super) const MAX_BLOCKS: usize = 1 << 24;

/// Number of bits of the number of a file.
pub(super) const FILE_BITS: u32 = 23;

/// Number of bits of the number of a leaf.
pub(super) const LEAF_BITS: u32 = 24;

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

    #[inline]
    pub(super) const fn mask(self) -> u64 {
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

const INDEX: Field = Field::new(0, 32);
const FILE: Field = Field::new(32, FILE_BITS);
const HAS_LEAF: Field = Field::new(55, 1);
const COHORT_SLOT: Field = Field::new(56, SLOT_BITS);
const IS_LINK: Field = Field::new(62, 1);

const LEAF: Field = Field::new(0, LEAF_BITS);
const MASK: Field = Field::new(24, BLOCK_PAGES as u32);
const COHORT: Field = Field::new(40, COHORT_BITS);
const PAGE: Field = Field::new(60, BLOCK_BITS);

/// Stored indices are XORed with these bits, so that an empty slot, which has no bits set, does not
/// look like the first block of a file.
const BLANK: u32 = 0x9e37_79b9;

/// A block in use, or an empty slot, which is all zeroes:
///
/// | field | one page | more pages |
/// |---|---|---|
/// | file, index | those of all its pages | the same |
/// | cohort and slot in it | its place in the order of its list | the same |
/// | `has_leaf` | 0 | 1 |
/// | `PAGE` | which page it has | unused |
/// | lower 40 bits of `body` | the handle of the page | number of the leaf with the lower bits of the handles, bitmap of the pages |
///
/// The last slot of a full bucket may have a link to the first of the blocks that have no slot: the
/// file of a link is [`NONE`](super::NONE), and its index is the number of the first spill.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(super) struct Block {
    /// Index, file, whether it has a leaf, slot in its cohort, whether it is a link.
    name: u64,
    /// Handle, or leaf and bitmap; cohort; page.
    body: u64,
}

impl Block {
    /// Creates a block with one page and its handle, at most [`MAX_HANDLE`].
    #[inline]
    pub(super) const fn single(
        name: BlockName,
        page: u32,
        handle: u64,
        position: Position,
    ) -> Self {
        Self {
            name: name.0 | COHORT_SLOT.put(position.slot() as u32),
            body: handle | COHORT.put(position.cohort()) | PAGE.put(page),
        }
    }

    /// Creates a block whose handles are in a leaf.
    pub(super) const fn several(name: BlockName, mask: u16, leaf: u32, position: Position) -> Self {
        Self {
            name: name.0 | COHORT_SLOT.put(position.slot() as u32) | HAS_LEAF.put(1),
            body: LEAF.put(leaf) | MASK.put(mask as u32) | COHORT.put(position.cohort()),
        }
    }

    /// Creates a link to a spill.
    pub(super) const fn link(spill: u32) -> Self {
        Self {
            name: INDEX.put(spill) | IS_LINK.put(1),
            body: 0,
        }
    }

    /// Returns the number of the spill, if it is a link.
    #[inline]
    pub(super) const fn linked(&self) -> Option<u32> {
        if IS_LINK.get(self.name) == 0 {
            None
        } else {
            Some(INDEX.get(self.name))
        }
    }

    /// Returns whether it is a block.
    #[inline]
    pub(super) const fn is_used(&self) -> bool {
        FILE.get(self.name) != 0
    }

    #[inline]
    pub(super) const fn name(&self) -> BlockName {
        BlockName(self.name & BlockName::MASK)
    }

    /// Returns whether it has a name.
    #[inline]
    pub(super) const fn is(&self, name: BlockName) -> bool {
        (self.name ^ name.0) & BlockName::MASK == 0
    }

    /// Returns whether it may be a block with this index, of any file. An empty slot or a link may
    /// look like one, but has file [`NONE`](super::NONE).
    #[inline]
    pub(super) const fn has_index(&self, index: u32) -> bool {
        self.name as u32 == index ^ BLANK
    }

    /// Returns 1 if it is an empty slot, which is neither a block nor a link, and 0 otherwise.
    #[inline]
    pub(super) const fn empty_bit(&self) -> u32 {
        is_zero(self.name)
    }

    /// Returns 1 if it has a name, and 0 otherwise.
    #[inline]
    pub(super) const fn name_bit(&self, name: BlockName) -> u32 {
        is_zero((self.name ^ name.0) & BlockName::MASK)
    }

    /// Returns 1 if it [has an index](Self::has_index), and 0 otherwise.
    #[inline]
    pub(super) const fn index_bit(&self, index: u32) -> u32 {
        is_zero((self.name as u32 ^ (index ^ BLANK)) as u64)
    }

    #[inline]
    pub(super) const fn position(&self) -> Position {
        Position::new(COHORT.get(self.body), COHORT_SLOT.get(self.name) as usize)
    }

    #[inline]
    pub(super) fn set_position(&mut self, position: Position) {
        COHORT_SLOT.set(&mut self.name, position.slot() as u32);
        COHORT.set(&mut self.body, position.cohort());
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
        INDEX.get(self.name) ^ BLANK
    }

    /// Returns the bitmap of its pages.
    #[inline]
    pub(super) const fn present(&self) -> u16 {
        if self.has_leaf() {
            MASK.get(self.body) as u16
        } else {
            1 << PAGE.get(self.body)
        }
    }

    #[inline]
    pub(super) const fn pages(&self) -> u32 {
        self.present().count_ones()
    }

    /// Returns whether its handles are in a leaf.
    #[inline]
    pub(super) const fn has_leaf(&self) -> bool {
        HAS_LEAF.get(self.name) != 0
    }

    /// Returns the page that it has, unless it has a leaf.
    #[inline]
    pub(super) const fn page(&self) -> u32 {
        PAGE.get(self.body)
    }

    /// Returns the handle of its page, unless it has a leaf.
    #[inline]
    pub(super) const fn only_handle(&self) -> u64 {
        self.body & MAX_HANDLE
    }

    /// Returns its leaf, if it has one.
    #[inline]
    pub(super) const fn leaf(&self) -> u32 {
        LEAF.get(self.body)
    }

    pub(super) fn set_leaf_number(&mut self, leaf: u32) {
        LEAF.set(&mut self.body, leaf);
    }

    /// Changes which of its pages are present. It must have a leaf.
    #[inline]
    pub(super) fn set_present(&mut self, present: u16) {
        MASK.set(&mut self.body, present.into());
    }
}

/// Returns 1 for 0, and 0 for other words up to `1 << 63`. A comparison would take more
/// instructions.
#[inline]
const fn is_zero(word: u64) -> u32 {
    (word.wrapping_sub(1) >> 63) as u32
}

/// The file and the index of a block in one word.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) struct BlockName(u64);

impl BlockName {
    const MASK: u64 = INDEX.put(u32::MAX) | FILE.put(u32::MAX);

    #[inline]
    pub(super) const fn new(file: u32, index: u32) -> Self {
        Self(FILE.put(file) | INDEX.put(index ^ BLANK))
    }
}

impl<S: Storage> Index<S> {
    #[inline]
    pub(super) fn block(&self, number: u32) -> &Block {
        if number & SPILLED == 0 {
            self.item(Kind::Buckets, number)
        } else {
            &self.spill(number & !SPILLED).block
        }
    }

    #[inline]
    pub(super) fn block_mut(&mut self, number: u32) -> &mut Block {
        if number & SPILLED == 0 {
            self.item_mut(Kind::Buckets, number)
        } else {
            &mut self.spill_mut(number & !SPILLED).block
        }
    }

    /// Returns the list of a block.
    #[inline]
    pub(super) fn list_of_block(&self, block: &Block) -> u16 {
        self.cohort(block.position().cohort()).list()
    }

    /// Returns the upper bits of the handles of a block.
    #[inline]
    pub(super) fn high(&self, block: &Block) -> u32 {
        if block.has_leaf() {
            self.owner(block.leaf()).high()
        } else {
            (block.only_handle() >> 32) as u32
        }
    }

    /// Returns the handle of a page that a block has.
    pub(super) fn handle(&self, block: &Block, page: usize) -> u64 {
        if !block.has_leaf() {
            return block.only_handle();
        }
        let low = self.leaf(block.leaf())[page % BLOCK_PAGES];
        u64::from(self.high(block)) << 32 | u64::from(low)
    }

    /// Returns whether the blocks exceed the 128 KiB that fit into the nearest caches of a
    /// processor.
    #[inline]
    pub(super) const fn is_far(&self) -> bool {
        self.blocks.used > 1 << 12
    }

    /// Returns whether the cohorts, the files or the leaves exceed these caches.
    #[inline]
    pub(super) const fn is_far_behind(&self) -> bool {
        self.cohorts.used > 1 << 13 || self.are_files_far() || self.leaves.used > 1 << 11
    }

    /// Returns whether the files exceed these caches.
    #[inline]
    pub(super) const fn are_files_far(&self) -> bool {
        self.files.used > 1 << 11
    }

    /// Reads blocks into the processor's caches. The reads do not depend on each other, so that the
    /// processor waits for all of them at a time.
    #[inline]
    pub(super) fn touch(&self, numbers: &[u32]) {
        let sum = numbers.iter().map(|number| self.block(*number).file());
        core::hint::black_box(sum.fold(0, |sum, word| sum ^ word));
    }

    /// Reads the items that change when a block is removed into the processor's caches. Returns a
    /// word that depends on them, which the caller must use, so that the reads are not optimized
    /// away.
    #[inline]
    pub(super) fn touch_behind(&self, block: &Block) -> u32 {
        let leaf = if block.has_leaf() {
            self.leaf(block.leaf())[0]
        } else {
            0
        };
        let file = self.file(block.file()).chain();
        leaf ^ file ^ self.cohort(block.position().cohort()).older()
    }

    /// Updates the links to a block that moved to another number.
    pub(super) fn redirect_block(&mut self, to: u32) {
        let block = *self.block(to);
        if block.has_leaf() {
            self.set_leaf_slot(block.leaf(), to);
        }
        self.redirect_member(block.position(), to);
    }
}

const _: () =
    assert!(INDEX.bits + BLOCK_BITS == 36 && COHORT_SLOT.shift + COHORT_SLOT.bits <= IS_LINK.shift);
const _: () =
    assert!(MASK.shift + MASK.bits <= COHORT.shift && COHORT.shift + COHORT.bits <= PAGE.shift);
const _: () = assert!(MAX_HANDLE >> COHORT.shift == 0 && LEAF.bits <= MASK.shift);
const _: () = assert!(PAGE.shift + PAGE.bits <= 64);
const _: () = assert!(size_of::<Block>() == 16);
const _: () =
    assert!(ddabi::pool::MAX_POOLS as usize * ddabi::request::CLASSES <= MAX_LIST as usize + 1);
