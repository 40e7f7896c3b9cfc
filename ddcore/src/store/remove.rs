// SPDX-License-Identifier: GPL-2.0-only

//! Pages that go.

use super::batch::{Group, Part, MAX_PARTS};
use super::block::{Block, BLOCK_PAGES};
use super::hash::BLOCK_BITS;
use super::{Reason, Storage, Store, NONE};
use ddabi::key::PageKey;

/// A page that is no longer kept. Only a store makes one, and only one for each page.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "what the handle stands for must be freed"]
pub struct Removed {
    pub(super) key: PageKey,
    pub(super) pool: u16,
    pub(super) handle: u64,
}

impl Removed {
    /// Its name.
    #[inline]
    pub const fn key(&self) -> &PageKey {
        &self.key
    }

    /// Its owner.
    #[inline]
    pub const fn pool(&self) -> u16 {
        self.pool
    }

    /// What the caller knows the page by.
    #[inline]
    pub const fn into_handle(self) -> u64 {
        self.handle
    }
}

impl<S: Storage> Store<S> {
    /// Removes the pages of a group. `sink` gets each with its place among the caller's pages, as
    /// told to [`super::Batch::add`].
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
            // The lock is held, so that a block that was not found has not come since. But a block
            // that was found may have gone with a part before this one.
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

    /// Removes the only page of a block, which is that of a part.
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
            pool: block.pool(),
            handle: u64::from(block.high()) << 32 | u64::from(block.body()),
        };
        sink(part.place(), removed);
        self.went(block.pool(), reason, 1);
        self.remove_block(number, block);
    }

    /// Counts pages that went.
    #[inline]
    fn went(&mut self, pool: u16, reason: Reason, pages: u64) {
        self.pages -= pages;
        let list = self.list_mut(pool);
        list.used -= pages;
        list.count(reason, pages);
    }

    /// Removes the pages of a part whose block was not where it was looked for.
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

    /// Removes up to `pages` of a pool's oldest pages and returns their number.
    pub fn remove_oldest(
        &mut self,
        pool: u16,
        pages: u32,
        reason: Reason,
        mut sink: impl FnMut(Removed),
    ) -> u32 {
        if self.is_far() {
            self.touch_oldest(pool, pages as usize);
        }
        let mut removed = 0;
        while removed < pages {
            let number = self.oldest(pool);
            if number == NONE {
                break;
            }
            let mask = lowest(self.block(number).present(), pages - removed);
            removed += mask.count_ones();
            self.remove_pages(number, mask, reason, |_, page| sink(page));
        }
        removed
    }

    /// Reads the next blocks of a pool that will go if each has but one page, and what they change.
    fn touch_oldest(&self, pool: u16, blocks: usize) {
        let mut numbers = [NONE; MAX_PARTS];
        let count = self.next_to_go(pool, &mut numbers[..blocks.min(MAX_PARTS)]);
        let numbers = &numbers[..count];
        self.touch(numbers);
        self.touch_behind(numbers);
        for number in numbers {
            self.touch_bucket(self.block(*number).hash());
        }
    }

    /// Removes the pages of a part from the blocks of its name, from a block on.
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

    /// Removes those pages of a block that are in `mask`, and the block if it has no others.
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
        let (file, pool) = (*self.file(block.file()).key(), block.pool());
        let (high, start) = (
            u64::from(block.high()) << 32,
            u64::from(block.index()) << BLOCK_BITS,
        );
        let mut give = |page: u32, low: u32| {
            let index = start | u64::from(page);
            let removed = Removed {
                key: PageKey { file, index },
                pool,
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
        self.went(pool, reason, pages);
        self.keep(number, &block, block.present() & !mask);
    }

    /// Leaves a block those in `left` of the pages it had.
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

/// The lowest `count` bits that are set.
fn lowest(mask: u16, count: u32) -> u16 {
    let (mut rest, mut left) = (mask, count);
    while rest != 0 && left > 0 {
        rest &= rest - 1;
        left -= 1;
    }
    mask & !rest
}
