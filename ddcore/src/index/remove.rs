// SPDX-License-Identifier: GPL-2.0-only

//! Removal of pages.

use super::batch::{Group, Part, MAX_PARTS};
use super::block::{Block, BLOCK_PAGES};
use super::fifo::Sum;
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
    /// Removes the pages of a group. Calls `sink` for each page with its position among the
    /// caller's pages, as passed to [`super::Batch::add`], and the page.
    pub fn take(
        &mut self,
        group: &Group<'_>,
        reason: Reason,
        mut sink: impl FnMut(usize, Removed),
    ) {
        if self.pages == 0 {
            return;
        }
        if self.is_far() {
            let buckets = group.parts().map(|part| self.touch_bucket(part.hash));
            core::hint::black_box(buckets.fold(0, |sum, word| sum ^ word));
        }
        if self.is_far_behind() {
            let mut sum = 0;
            for part in group.parts() {
                sum ^= self.touch_behind(self.block(self.candidate(part)));
            }
            core::hint::black_box(sum);
        }
        let mut sum = Sum::default();
        for part in group.parts() {
            let single = match part.pages() {
                1 => self.take_single(part),
                _ => None,
            };
            let Some(block) = single else {
                self.remove_part(part, reason, &mut sink);
                continue;
            };
            let list = self.leave(block.position());
            if let Some(others) = sum.add(list) {
                self.removed(others, reason);
            }
            let index = u64::from(part.block) << BLOCK_BITS | u64::from(block.page());
            let file = part.file;
            let removed = Removed {
                key: PageKey { file, index },
                list,
                handle: block.only_handle(),
            };
            sink(part.position(), removed);
        }
        self.removed(sum, reason);
    }

    /// Removes the block of a single page from its bucket and from its file, if the block has no
    /// other pages and is the only candidate in a slot, or the first candidate in a spill.
    #[inline(always)]
    fn take_single(&mut self, part: &Part) -> Option<Block> {
        let Some((number, slot)) = self.only_candidate(part) else {
            return self.take_spilled(part);
        };
        let block = *slot;
        if block.has_leaf() || part.mask != 1 << block.page() {
            return None;
        }
        *slot = Block::default();
        let file = self.file_mut(block.file());
        if !file.is(&part.file) {
            // The block belongs to another file and is restored.
            *self.block_mut(number) = block;
            return None;
        }
        let has_others = file.remove();
        self.count_removed();
        if !has_others {
            self.remove_file(block.file());
        }
        Some(block)
    }

    /// Removes the block of a single page from its spill and from its file, if the block has no
    /// other pages and is the first candidate.
    #[inline(never)]
    fn take_spilled(&mut self, part: &Part) -> Option<Block> {
        let number = self.candidate(part);
        if number == NONE {
            return None;
        }
        let block = *self.block(number);
        let is_single = !block.has_leaf() && part.mask == 1 << block.page();
        if !is_single || !block.has_index(part.block) {
            return None;
        }
        let file = self.file_mut(block.file());
        if !file.is(&part.file) {
            return None;
        }
        if !file.remove() {
            self.remove_file(block.file());
        }
        self.remove_place(number);
        Some(block)
    }

    /// Removes the pages of a part.
    #[inline(never)]
    fn remove_part(&mut self, part: &Part, reason: Reason, sink: &mut impl FnMut(usize, Removed)) {
        let number = self.candidate(part);
        if number == NONE {
            return;
        }
        let block = self.block(number);
        if block.has_index(part.block) && self.file(block.file()).is(&part.file) {
            self.remove_found(number, part, reason, sink);
        } else {
            self.remove_behind(part, reason, sink);
        }
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

    /// Removes up to `pages` pages of a list, the oldest first, and returns their number.
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

    /// Reads the oldest blocks of a list, assuming one page in each, and the items that change when
    /// they are removed, into the processor's caches.
    fn touch_oldest(&self, list: u16, blocks: usize) {
        let mut numbers = [NONE; MAX_PARTS];
        let count = self.next_to_go(list, &mut numbers[..blocks.min(MAX_PARTS)]);
        let numbers = &numbers[..count];
        self.touch(numbers);
        let behind = numbers
            .iter()
            .map(|number| self.touch_behind(self.block(*number)));
        core::hint::black_box(behind.fold(0, |sum, word| sum ^ word));
    }

    /// Removes the pages of a part from a block and from the following ones that have the same
    /// name.
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
                self.next_block(number)
            };
            self.remove_pages(number, mask, reason, |page, removed| {
                sink(part.position_of(page), removed);
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
        let (file, list) = (*self.file(block.file()).key(), self.list_of_block(&block));
        let start = u64::from(block.index()) << BLOCK_BITS;
        let mut give = |page: u32, handle: u64| {
            let index = start | u64::from(page);
            let removed = Removed {
                key: PageKey { file, index },
                list,
                handle,
            };
            sink(page, removed);
        };
        let mut pages = 0;
        if block.has_leaf() {
            let high = u64::from(self.high(&block)) << 32;
            let leaf = self.leaf(block.leaf());
            let mut rest = mask;
            while rest != 0 {
                let page = rest.trailing_zeros();
                give(page, high | u64::from(leaf[page as usize % BLOCK_PAGES]));
                rest &= rest - 1;
                pages += 1;
            }
        } else {
            give(block.page(), block.only_handle());
            pages = 1;
        }
        self.removed(Sum::new(list, pages), reason);
        self.keep(number, &block, block.present() & !mask);
    }

    /// Reduces the pages of a block to those in `left`.
    #[inline]
    pub(super) fn keep(&mut self, number: u32, block: &Block, left: u16) {
        if left == 0 {
            self.remove_block(number, block);
            if block.has_leaf() {
                self.release_leaf(block.leaf());
            }
        } else if block.has_leaf() {
            self.block_mut(number).set_present(left);
            if left & (left - 1) == 0 {
                let page = left.trailing_zeros();
                let handle = self.handle(block, page as usize);
                *self.block_mut(number) =
                    Block::single(block.name(), page, handle, block.position());
                self.release_leaf(block.leaf());
            }
        }
    }

    /// Removes a block, but not its leaf.
    #[inline]
    fn remove_block(&mut self, number: u32, block: &Block) {
        self.remove_place(number);
        self.leave(block.position());
        if !self.file_mut(block.file()).remove() {
            self.remove_file(block.file());
        }
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
