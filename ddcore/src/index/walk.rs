// SPDX-License-Identifier: GPL-2.0-only

//! Operations on many blocks, in steps. The caller can release its lock between two steps.

use super::block::{Block, BlockName, BLOCK_PAGES};
use super::bucket::LOAD;
use super::hash::BLOCK_BITS;
use super::{Index, Reason, Removed, Storage, NONE};
use ddabi::key::FileKey;

/// Position of a walk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    at: At,
}

#[derive(Clone, Copy, Debug, Default)]
enum At {
    /// The walk has not begun.
    #[default]
    Start,
    /// It continues with this index among the file's blocks.
    Index(u32),
    /// It visits all blocks, and continues with the bucket of this hash.
    Hash(u32),
}

/// Number of blocks that can be examined in the time of removing a page.
const LOOKS: u32 = 8;

/// Number of blocks that can be visited in order in the time of one lookup.
const GLANCES: u32 = 8;

/// Result of a step of a walk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Walk {
    /// The walk is complete.
    Done,
    /// The walk continues with another call with the same cursor.
    More,
}

impl<S: Storage> Index<S> {
    /// Removes the pages `first..=last` of a file. A step ends once it may have removed `pages`
    /// pages, which is at least 16, or has examined as many blocks as take the same time.
    ///
    /// Blocks are looked up by index, or all blocks are visited if that is faster. Pages that are
    /// added between two steps may be left out.
    pub fn remove_range(
        &mut self,
        file: &FileKey,
        (first, last): (u64, u64),
        cursor: &mut Cursor,
        pages: u32,
        mut sink: impl FnMut(Removed),
    ) -> Walk {
        self.walk_file(
            file,
            (first, last),
            cursor,
            (pages, true),
            |index, number| {
                let mask = covered(u64::from(index.block(number).index()), (first, last));
                index.remove_pages(number, mask, Reason::Flush, |_, page| sink(page));
            },
        )
    }

    /// Moves all pages of a file to the lists that `to` returns for their current ones, in steps
    /// like those of [`Index::remove_range`]. Calls `moved` with the former list and the number of
    /// moved pages. If memory is missing that [`Index::lack`] would report for two parts, pages
    /// stay in their lists.
    pub fn migrate(
        &mut self,
        file: &FileKey,
        (to, stamp): (impl Fn(u16) -> u16, u64),
        cursor: &mut Cursor,
        pages: u32,
        mut moved: impl FnMut(u16, u32),
    ) -> Walk {
        self.walk_file(
            file,
            (0, u64::MAX),
            cursor,
            (pages, false),
            |index, number| {
                let block = index.block(number);
                let (from, pages) = (index.list_of_block(block), block.pages());
                let owner = (to(from), stamp);
                let known = usize::from(owner.0) < index.storage.lists().len();
                if from != owner.0 && known && index.cohort_room() > 0 {
                    let twin = index.twin(number, owner.0);
                    if twin == NONE || index.leaf_room() == 0 {
                        index.move_to(number, owner);
                    } else {
                        index.merge(number, twin, owner);
                    }
                    moved(from, pages);
                }
            },
        )
    }

    /// Removes the pages of the files for which `condemned` returns `true`. A step ends once it may
    /// have removed `pages` pages, which is at least 16, or has examined as many blocks as take the
    /// same time.
    ///
    /// Blocks are visited in an order of their hashes that misses none if the index grows, or is
    /// trimmed, between two steps.
    pub fn sweep(
        &mut self,
        cursor: &mut Cursor,
        pages: u32,
        reason: Reason,
        mut condemned: impl FnMut(&FileKey) -> bool,
        sink: impl FnMut(Removed),
    ) -> Walk {
        let is_picked = |index: &Self, block: &Block| condemned(index.file(block.file()).key());
        self.sweep_picked(cursor, pages, reason, is_picked, sink)
    }

    /// Removes the pages whose handles have upper bits (from bit 32 on) for which `condemned`
    /// returns `true`, in steps like those of [`Index::sweep`].
    pub fn sweep_handles(
        &mut self,
        cursor: &mut Cursor,
        pages: u32,
        reason: Reason,
        mut condemned: impl FnMut(u32) -> bool,
        sink: impl FnMut(Removed),
    ) -> Walk {
        let is_picked = |index: &Self, block: &Block| condemned(index.high(block));
        self.sweep_picked(cursor, pages, reason, is_picked, sink)
    }

    /// Removes the pages of the blocks for which `is_picked` returns `true`, in a step of a sweep.
    fn sweep_picked(
        &mut self,
        cursor: &mut Cursor,
        pages: u32,
        reason: Reason,
        is_picked: impl FnMut(&Self, &Block) -> bool,
        mut sink: impl FnMut(Removed),
    ) -> Walk {
        let start = match cursor.at {
            At::Hash(hash) => hash,
            _ => 0,
        };
        self.sweep_blocks(start, cursor, (pages, true), is_picked, |index, number| {
            index.remove_pages(number, u16::MAX, reason, |_, page| sink(page));
        })
    }

    /// Visits the blocks for which `is_picked` returns `true`, from the bucket of a hash on.
    /// `visit` may remove a block or its pages. If `divides` is set, a step visits blocks with no
    /// more than `pages` pages together, and after a visit the block must not be picked again.
    /// Otherwise a step visits all blocks of at least one bucket.
    fn sweep_blocks(
        &mut self,
        mut at: u32,
        cursor: &mut Cursor,
        (mut pages, divides): (u32, bool),
        mut is_picked: impl FnMut(&Self, &Block) -> bool,
        mut visit: impl FnMut(&mut Self, u32),
    ) -> Walk {
        let mut budget = Budget::new(pages);
        let mut is_first = true;
        if self.blocks.buckets() == 0 {
            return Walk::Done;
        }
        loop {
            let bucket = self.blocks.bucket(at);
            let (mut count, mut number) = (0, self.first_of(bucket));
            while number != NONE {
                budget.look();
                let block = self.block(number);
                if is_picked(self, block) {
                    count += block.pages();
                }
                number = self.following(number);
            }
            if !is_first && !budget.has(count) {
                cursor.at = At::Hash(at);
                return Walk::More;
            }
            is_first = false;
            budget.look();
            budget.spend(count);
            number = if count > 0 {
                self.first_of(bucket)
            } else {
                NONE
            };
            while number != NONE {
                let (next, block) = (self.following(number), self.block(number));
                if is_picked(self, block) {
                    let count = block.pages();
                    if divides && count > pages {
                        cursor.at = At::Hash(at);
                        return Walk::More;
                    }
                    pages = pages.saturating_sub(count);
                    visit(self, number);
                }
                number = next;
            }
            at = self.blocks.spread().after(at);
            if at == 0 {
                return Walk::Done;
            }
        }
    }

    /// Returns the block of `list` that has other pages of the same 16 consecutive ones, or
    /// [`NONE`].
    fn twin(&self, number: u32, list: u16) -> u32 {
        let block = self.block(number);
        let high = self.high(block);
        let file = self.hasher.file(self.file(block.file()).key());
        let mut twin = self.first_block(self.hasher.block(file, block.index()), block.name());
        while twin != NONE {
            let other = self.block(twin);
            if self.list_of_block(other) == list && self.high(other) == high {
                break;
            }
            twin = self.next_block(twin);
        }
        twin
    }

    /// Moves the pages of a block to its twin.
    fn merge(&mut self, number: u32, twin: u32, owner: (u16, u64)) {
        self.move_to(number, owner);
        let block = *self.block(number);
        self.renew(twin, owner);
        let mut rest = block.present();
        while rest != 0 {
            let page = rest.trailing_zeros() as usize % BLOCK_PAGES;
            let handle = self.handle(&block, page);
            self.extend(twin, 1 << page, &[handle]);
            rest &= rest - 1;
        }
        // The renewal of the twin may have given this block another position.
        let block = *self.block(number);
        self.keep(number, &block, 0);
    }

    /// Visits the blocks of a file that may have pages of a range, from the cursor on. `visit` may
    /// remove the block or merge it with another one. For `divides` see [`Self::sweep_blocks`].
    fn walk_file(
        &mut self,
        file: &FileKey,
        (first, last): (u64, u64),
        cursor: &mut Cursor,
        (pages, divides): (u32, bool),
        mut visit: impl FnMut(&mut Self, u32),
    ) -> Walk {
        let hash = self.hasher.file(file);
        let mut number = self.find_file(file, hash);
        if number == NONE {
            return Walk::Done;
        }
        let (lowest, highest) = self.file(number).extent();
        let bound = |index: u64| (index >> BLOCK_BITS).min(u64::from(u32::MAX)) as u32;
        let highest = highest.min(bound(last));
        let mut index = match cursor.at {
            At::Start => {
                let index = lowest.max(bound(first));
                if highest.saturating_sub(index) > self.blocks.buckets() * LOAD / GLANCES {
                    cursor.at = At::Hash(0);
                }
                index
            }
            At::Index(index) => index.max(lowest),
            At::Hash(_) => 0,
        };
        if let At::Hash(at) = cursor.at {
            let is_its = |_: &Self, block: &Block| {
                let is_covered =
                    covered(u64::from(block.index()), (first, last)) & block.present() != 0;
                block.file() == number && (is_covered || !divides)
            };
            return self.sweep_blocks(at, cursor, (pages, divides), is_its, visit);
        }
        let mut budget = Budget::new(pages);
        while number != NONE && index <= highest {
            if !budget.is_left() {
                cursor.at = At::Index(index);
                return Walk::More;
            }
            budget.look();
            let block = self.hasher.block(hash, index);
            let block = self.first_block(block, BlockName::new(number, index));
            if block != NONE {
                budget.spend(self.visit_all(block, &mut visit));
                // The file was removed if this was its last block.
                number = self.find_file(file, hash);
            }
            match index.checked_add(1) {
                Some(next) => index = next,
                None => break,
            }
        }
        Walk::Done
    }

    /// Visits a block and the following ones with the same name. Returns the number of their pages.
    fn visit_all(&mut self, first: u32, visit: &mut impl FnMut(&mut Self, u32)) -> u32 {
        let (mut block, mut pages) = (first, 0);
        while block != NONE {
            let next = self.next_block(block);
            pages += self.block(block).pages();
            visit(self, block);
            block = next;
        }
        pages
    }
}

/// The work that a step may still do.
struct Budget {
    looks: u32,
}

impl Budget {
    const fn new(pages: u32) -> Self {
        Self {
            looks: pages.saturating_mul(LOOKS),
        }
    }

    /// Returns whether the pages of another block may be removed.
    const fn is_left(&self) -> bool {
        self.looks >= BLOCK_PAGES as u32 * LOOKS
    }

    /// Returns whether this many pages may be removed.
    const fn has(&self, pages: u32) -> bool {
        self.looks > 0 && self.looks >= pages * LOOKS
    }

    fn look(&mut self) {
        self.looks = self.looks.saturating_sub(1);
    }

    fn spend(&mut self, pages: u32) {
        self.looks = self.looks.saturating_sub(pages * LOOKS);
    }
}

/// Returns a bitmap of the pages of a block that are in a range.
fn covered(block: u64, (first, last): (u64, u64)) -> u16 {
    let start = block << BLOCK_BITS;
    let end = start + (BLOCK_PAGES as u64 - 1);
    if last < start || end < first {
        return 0;
    }
    let from = u16::MAX << first.saturating_sub(start);
    let upto = u16::MAX >> end.saturating_sub(last);
    from & upto
}
