// SPDX-License-Identifier: GPL-2.0

//! Pages that go.

use super::batch::{Group, Part, MAX_PARTS};
use super::block::{Block, Name, BLOCK_PAGES};
use super::hash::{block_hash, BLOCK_BITS};
use super::{Reason, Storage, Store, NONE};
use core::hint::black_box;
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

/// Where the parts of a group are, in its order: numbers of files and of blocks.
pub(super) struct Found {
    pub(super) files: [u32; MAX_PARTS],
    /// The first block with the part's name; there may be others in the chain behind it.
    pub(super) blocks: [u32; MAX_PARTS],
}

impl Found {
    pub(super) const NOTHING: Self = Self {
        files: [NONE; MAX_PARTS],
        blocks: [NONE; MAX_PARTS],
    };
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
        let found = self.locate(group);
        if self.is_far() {
            self.touch_neighbours(&found.blocks[..group.len().min(MAX_PARTS)]);
        }
        for ((file, block), part) in found.files.iter().zip(&found.blocks).zip(group.parts()) {
            if *block == NONE {
                continue;
            }
            let name = Name::new(*file, part.block);
            // A part before this one may have removed what was found.
            let block = if self.block(*block).name() == name {
                *block
            } else {
                self.find_block(part, *file)
            };
            self.remove_found(block, name, part, reason, &mut sink);
        }
    }

    /// Finds the blocks of a group, without waiting for one cache line after the other.
    #[inline]
    pub(super) fn locate(&self, group: &Group<'_>) -> Found {
        let mut found = Found::NOTHING;
        for ((file, block), part) in found
            .files
            .iter_mut()
            .zip(&mut found.blocks)
            .zip(group.parts())
        {
            *file = self
                .file_head(part.file_hash)
                .candidate(part.file_hash as u32);
            *block = self.block_head(part).candidate(part.hash);
        }
        if self.is_far() {
            self.touch_files(&found.files[..group.len().min(MAX_PARTS)]);
            self.touch(&found.blocks[..group.len().min(MAX_PARTS)]);
        }
        for ((file, block), part) in found
            .files
            .iter_mut()
            .zip(&mut found.blocks)
            .zip(group.parts())
        {
            *file = self.find_file_from(*file, &part.file);
            *block = self.find_block_from(*block, Name::new(*file, part.block));
        }
        found
    }

    /// Removes up to `pages` of a pool's oldest pages; says how many.
    pub fn remove_oldest(
        &mut self,
        pool: u16,
        pages: u32,
        reason: Reason,
        mut sink: impl FnMut(Removed),
    ) -> u32 {
        let mut removed = 0;
        while removed < pages {
            let list = self.storage.lists().get(usize::from(pool));
            let number = list.map_or(NONE, |list| list.oldest);
            if number == NONE {
                break;
            }
            let mask = lowest(self.block(number).present(), pages - removed);
            removed += mask.count_ones();
            self.remove_pages(number, mask, None, reason, |_, page| sink(page));
        }
        removed
    }

    /// Removes the pages of a part from the blocks of its name, from a block on.
    #[inline]
    pub(super) fn remove_found(
        &mut self,
        mut number: u32,
        name: Name,
        part: &Part,
        reason: Reason,
        sink: &mut impl FnMut(usize, Removed),
    ) {
        let mut rest = part.mask;
        while number != NONE && rest != 0 {
            let block = self.block(number);
            let (next, mask) = (block.chain(), block.present() & rest);
            rest &= !mask;
            self.remove_pages(number, mask, Some(part.hash), reason, |page, removed| {
                sink(part.place_of(page), removed);
            });
            if rest == 0 {
                break;
            }
            number = self.find_block_from(next, name);
        }
    }

    /// Removes those pages of a block that are in `mask`, and the block if it has no others. `hash`
    /// is the block's, if it is at hand.
    #[inline]
    pub(super) fn remove_pages(
        &mut self,
        number: u32,
        mask: u16,
        hash: Option<u32>,
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
        self.pages -= pages;
        let list = self.list_mut(pool);
        list.used -= pages;
        list.count(reason, pages);
        self.keep(number, &block, block.present() & !mask, hash);
    }

    /// Leaves a block those in `left` of the pages it had.
    #[inline]
    pub(super) fn keep(&mut self, number: u32, block: &Block, left: u16, hash: Option<u32>) {
        if left == 0 {
            self.remove_block(number, block, hash);
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
    fn remove_block(&mut self, number: u32, block: &Block, hash: Option<u32>) {
        let hash = hash.unwrap_or_else(|| {
            let file = self.file(block.file());
            block_hash(file.hash(), block.index())
        });
        self.unlink_block(number, block.chain(), hash);
        self.unlink_fifo(block);
        let (before, after) = (block.before(), block.after());
        if after != NONE {
            self.block_mut(after).set_before(before);
        }
        if before != NONE {
            self.block_mut(before).set_after(after);
        } else if after != NONE {
            self.file_mut(block.file()).set_first(after);
        } else {
            self.remove_file(block.file());
        }
        self.release::<Block>(number);
    }

    /// Reads what the removal of blocks will touch.
    fn touch_neighbours(&self, numbers: &[u32]) {
        let mut sum = 0;
        for number in numbers {
            let block = self.block(*number);
            for neighbour in [block.older(), block.newer(), block.before(), block.after()] {
                sum ^= self.block(neighbour).chain();
            }
            if block.has_leaf() {
                sum ^= self.leaf(block.body())[0];
            }
        }
        black_box(sum);
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
