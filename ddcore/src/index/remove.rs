// SPDX-License-Identifier: GPL-2.0-only

//! Removal of pages.

use super::batch::{Group, Part, MAX_PARTS};
use super::block::{Block, BLOCK_PAGES};
use super::hash::BLOCK_BITS;
use super::{Index, Reason, Storage, NONE};
use ddabi::key::PageKey;

/// A page that is no longer in the index, which creates exactly one such value for each page.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "what the handle stands for must be freed"]
pub struct Removed {
    pub(super) key: PageKey,
    pub(super) list: u16,
    pub(super) handle: u64,
}

impl Removed {
    /// Returns the key of the page.
    #[inline]
    pub const fn key(&self) -> &PageKey {
        &self.key
    }

    /// Returns the list that the page was in.
    #[inline]
    pub const fn list(&self) -> u16 {
        self.list
    }

    /// Returns the handle of the page.
    #[inline]
    pub const fn into_handle(self) -> u64 {
        self.handle
    }
}

impl<S: Storage> Index<S> {
    /// Removes the pages of a group. Calls `sink` with each and its position among the caller's
    /// pages, as passed to [`super::Batch::add`].
    pub fn take(
        &mut self,
        group: &Group<'_>,
        reason: Reason,
        mut sink: impl FnMut(usize, Removed),
    ) {
        if self.pages == 0 {
            return;
        }
        let mut blocks = [NONE; MAX_PARTS];
        for (block, part) in blocks.iter_mut().zip(group.parts()) {
            *block = self.block_candidate(part.hash);
        }
        if self.is_far() {
            let count = group.len().min(MAX_PARTS);
            self.touch(&blocks[..count]);
            self.touch_behind(&blocks[..count]);
        }
        for (number, part) in blocks.into_iter().zip(group.parts()) {
            if number == NONE {
                continue;
            }
            // The caller holds the lock, so that no block was added since the lookup. But a block
            // that was found may have been removed with an earlier part.
            let block = *self.block(number);
            if block.index() != part.block || !self.file(block.file()).is(&part.file) {
                self.remove_behind(part, reason, &mut sink);
            } else if block.present() == part.mask && !block.has_leaf() {
                self.remove_single(number, &block, part, reason, &mut sink);
            } else {
                self.remove_found(number, part, reason, &mut sink);
            }
        }
    }

    /// Removes a block whose only page is that of the part.
    #[inline]
    fn remove_single(
        &mut self,
        number: u32,
        block: &Block,
        part: &Part,
        reason: Reason,
        sink: &mut impl FnMut(usize, Removed),
    ) {
        let page = u64::from(part.mask.trailing_zeros());
        let index = u64::from(part.block) << BLOCK_BITS | page;
        let removed = Removed {
            key: PageKey {
                file: part.file,
                index,
            },
            list: block.list(),
            handle: u64::from(block.high()) << 32 | u64::from(block.body()),
        };
        sink(part.place(), removed);
        self.went(block.list(), reason, 1);
        self.remove_block(number, block);
    }

    /// Counts removed pages.
    #[inline]
    fn went(&mut self, list: u16, reason: Reason, pages: u64) {
        self.pages -= pages;
        let list = self.list_mut(list);
        list.used -= pages;
        list.count(reason, pages);
    }

    /// Removes the pages of a part whose block is not the first candidate.
    #[inline(never)]
    fn remove_behind(
        &mut self,
        part: &Part,
        reason: Reason,
        sink: &mut impl FnMut(usize, Removed),
    ) {
        let file = self.find_file(&part.file, part.file_hash);
        let block = self.find_block(part, file);
        self.remove_found(block, part, reason, sink);
    }

    /// Removes up to `pages` of a list's oldest pages and returns their number.
    pub fn remove_oldest(
        &mut self,
        list: u16,
        pages: u32,
        reason: Reason,
        mut sink: impl FnMut(Removed),
    ) -> u32 {
        if self.is_far() {
            self.touch_oldest(list, pages as usize);
        }
        let mut removed = 0;
        while removed < pages {
            let number = self.oldest(list);
            if number == NONE {
                break;
            }
            let mask = lowest(self.block(number).present(), pages - removed);
            removed += mask.count_ones();
            self.remove_pages(number, mask, reason, |_, page| sink(page));
        }
        removed
    }

    /// Returns the number of pages that a list has in its oldest block.
    pub fn oldest_pages(&self, list: u16) -> u32 {
        match self.oldest(list) {
            NONE => 0,
            number => self.block(number).present().count_ones(),
        }
    }

    /// Reads the next blocks of a list, assuming one page in each, and the items that change with
    /// them.
    fn touch_oldest(&self, list: u16, blocks: usize) {
        let mut numbers = [NONE; MAX_PARTS];
        let count = self.next_to_go(list, &mut numbers[..blocks.min(MAX_PARTS)]);
        let numbers = &numbers[..count];
        self.touch(numbers);
        self.touch_behind(numbers);
        for number in numbers {
            self.touch_bucket(self.block(*number).hash());
        }
    }

    /// Removes the pages of a part from a block and from those behind it that have the same name.
    #[inline]
    pub(super) fn remove_found(
        &mut self,
        mut number: u32,
        part: &Part,
        reason: Reason,
        sink: &mut impl FnMut(usize, Removed),
    ) {
        let mut rest = part.mask;
        while number != NONE {
            let mask = self.block(number).present() & rest;
            rest &= !mask;
            let next = if rest == 0 {
                NONE
            } else {
                self.next_block(number, part.hash)
            };
            self.remove_pages(number, mask, reason, |page, removed| {
                sink(part.place_of(page), removed);
            });
            number = next;
        }
    }

    /// Removes the pages in `mask` from a block, and the block if it has no others.
    #[inline]
    pub(super) fn remove_pages(
        &mut self,
        number: u32,
        mask: u16,
        reason: Reason,
        mut sink: impl FnMut(u32, Removed),
    ) {
        let block = *self.block(number);
        let mask = mask & block.present();
        if mask == 0 {
            return;
        }
        let (file, list) = (*self.file(block.file()).key(), block.list());
        let (high, start) = (
            u64::from(block.high()) << 32,
            u64::from(block.index()) << BLOCK_BITS,
        );
        let mut give = |page: u32, low: u32| {
            let index = start | u64::from(page);
            let removed = Removed {
                key: PageKey { file, index },
                list,
                handle: high | u64::from(low),
            };
            sink(page, removed);
        };
        let mut pages = 0;
        if block.has_leaf() {
            let leaf = self.leaf(block.body());
            let mut rest = mask;
            while rest != 0 {
                let page = rest.trailing_zeros();
                give(page, leaf[page as usize % BLOCK_PAGES]);
                rest &= rest - 1;
                pages += 1;
            }
        } else {
            give(mask.trailing_zeros(), block.body());
            pages = 1;
        }
        self.went(list, reason, pages);
        self.keep(number, &block, block.present() & !mask);
    }

    /// Reduces the pages of a block to those in `left`.
    #[inline]
    pub(super) fn keep(&mut self, number: u32, block: &Block, left: u16) {
        if left == 0 {
            self.remove_block(number, block);
        } else {
            self.block_mut(number).set_present(left);
        }
        if block.has_leaf() && left & left.wrapping_sub(1) == 0 {
            if left != 0 {
                let handle = self.leaf(block.body())[left.trailing_zeros() as usize % BLOCK_PAGES];
                self.block_mut(number).set_body(handle);
            }
            self.release_leaf(block.body());
        }
    }

    #[inline]
    fn remove_block(&mut self, number: u32, block: &Block) {
        self.unlink_block(number, block.chain(), block.hash());
        self.leave(block.seat());
        if !self.file_mut(block.file()).remove() {
            self.remove_file(block.file());
        }
        self.release::<Block>(number);
    }
}

/// Returns the lowest `count` of the bits that are set.
fn lowest(mask: u16, count: u32) -> u16 {
    let (mut rest, mut left) = (mask, count);
    while rest != 0 && left > 0 {
        rest &= rest - 1;
        left -= 1;
    }
    mask & !rest
}
