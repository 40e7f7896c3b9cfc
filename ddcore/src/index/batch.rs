// SPDX-License-Identifier: GPL-2.0-only

//! A batch of pages, whose keys are hashed, split into parts of blocks and sorted by shard before a
//! lock is taken.

use super::block::{BLOCK_PAGES, MAX_KEPT_INDEX};
use super::hash::{in_group, Hasher, BLOCK_BITS};
use ddabi::key::{FileKey, PageKey};

/// Maximum number of parts in a batch. Processors cannot overlap more cache misses than that.
pub const MAX_PARTS: usize = 32;

/// Maximum number of shards among which a batch can be sorted.
pub const MAX_SHARDS: usize = 64;

/// Consecutive pages of one block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    pub(super) file: FileKey,
    pub(super) file_hash: u64,
    pub(super) block: u32,
    /// Hash of the block inside its shard.
    pub(super) hash: u32,
    pub(super) mask: u16,
    pub(super) list: u16,
    pages: u16,
    position: u16,
    shard: u16,
}

impl Part {
    /// Returns the number of pages.
    pub const fn pages(&self) -> usize {
        self.pages as usize
    }

    /// Returns the list of the pages, as passed to [`Batch::add`].
    #[inline]
    pub const fn list(&self) -> u16 {
        self.list
    }

    /// Returns the position of the first page among the caller's pages, as passed to
    /// [`Batch::add`].
    pub const fn position(&self) -> usize {
        self.position as usize
    }

    /// Returns the position among the caller's pages of page `page` of the block.
    pub(super) const fn position_of(&self, page: u32) -> usize {
        self.position as usize + (page - self.mask.trailing_zeros()) as usize
    }

    /// Creates a part of the pages in `mask` of the block that contains page `index`. The caller
    /// sets the number of pages, the position and the list.
    #[inline]
    fn new(hasher: &Hasher, (file, hash): (&FileKey, u64), index: u64, mask: u16) -> Self {
        let block = (index >> BLOCK_BITS) as u32;
        let group = hasher.group(hash, block);
        Self {
            file: *file,
            file_hash: hash,
            block,
            hash: in_group(group, block),
            mask,
            list: 0,
            pages: 0,
            position: 0,
            shard: (group >> 56) as u16,
        }
    }

    /// Returns a part of a single page, for operations without a batch.
    pub(super) fn single(hasher: &Hasher, key: &PageKey) -> Self {
        Self::stretch(hasher, key, 1, 0)
    }

    /// Returns a part of neighbouring pages of one block, for operations without a batch.
    pub(super) fn stretch(hasher: &Hasher, key: &PageKey, pages: usize, list: u16) -> Self {
        let file_hash = hasher.file(&key.file);
        let block = (key.index >> BLOCK_BITS) as u32;
        let known = key.index <= MAX_KEPT_INDEX;
        Self {
            file: key.file,
            file_hash,
            block,
            hash: hasher.block(file_hash, block),
            mask: match known {
                true => (u16::MAX >> (BLOCK_PAGES - pages)) << (key.index % BLOCK_PAGES as u64),
                false => 0,
            },
            list,
            pages: pages as u16,
            ..Self::default()
        }
    }
}

/// Parts of blocks, sorted by shard.
#[derive(Debug)]
pub struct Batch {
    parts: [Part; MAX_PARTS],
    /// Numbers of the parts, sorted by shard.
    order: [u8; MAX_PARTS],
    count: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// Creates an empty batch.
    pub const fn new() -> Self {
        const EMPTY: Part = Part {
            file: FileKey {
                inode: 0,
                filesystem: 0,
                generation: 0,
            },
            file_hash: 0,
            block: 0,
            hash: 0,
            mask: 0,
            list: 0,
            pages: 0,
            position: 0,
            shard: 0,
        };
        Self {
            parts: [EMPTY; MAX_PARTS],
            order: [0; MAX_PARTS],
            count: 0,
        }
    }

    /// Returns whether the batch has no parts.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds `pages` pages from `first` on. `position` is the position of the first one among the
    /// caller's pages, and `list` the list into which [`Index::insert`](super::Index::insert) puts
    /// them. Returns the number of pages that fit, which includes pages beyond [`MAX_KEPT_INDEX`]
    /// that are skipped.
    ///
    /// `position + pages` is at most 65536.
    #[inline]
    pub fn add(
        &mut self,
        hasher: &Hasher,
        first: &PageKey,
        pages: usize,
        (position, list): (usize, u16),
    ) -> usize {
        if pages != 1 || first.index > MAX_KEPT_INDEX {
            // The key is copied, so that the key of a single page can stay in registers.
            let first = *first;
            return self.add_run(hasher, &first, pages, (position, list));
        }
        let Some(part) = self.parts.get_mut(self.count) else {
            return 0;
        };
        self.count += 1;
        let file = hasher.file(&first.file);
        let mask = 1 << (first.index % BLOCK_PAGES as u64);
        *part = Part::new(hasher, (&first.file, file), first.index, mask);
        (part.pages, part.position, part.list) = (1, position as u16, list);
        1
    }

    /// Adds pages that may be in more than one block.
    #[inline(never)]
    fn add_run(
        &mut self,
        hasher: &Hasher,
        first: &PageKey,
        pages: usize,
        (position, list): (usize, u16),
    ) -> usize {
        let mut done = 0;
        let file = hasher.file(&first.file);
        while done < pages {
            let Some(part) = self.parts.get_mut(self.count) else {
                break;
            };
            let index = first.index + done as u64;
            if index > MAX_KEPT_INDEX {
                return pages;
            }
            let page = (index % BLOCK_PAGES as u64) as usize;
            let count = (BLOCK_PAGES - page).min(pages - done);
            let mask = (u16::MAX >> (BLOCK_PAGES - count)) << page;
            *part = Part::new(hasher, (&first.file, file), index, mask);
            (part.pages, part.position, part.list) = (count as u16, (position + done) as u16, list);
            self.count += 1;
            done += count;
        }
        done
    }

    /// Sorts the parts by shard. There are `1 << bits` shards, at most [`MAX_SHARDS`]. Calls
    /// `visit` with the number and the parts of each shard that has any, and empties the batch.
    pub fn by_shard(&mut self, bits: u32, mut visit: impl FnMut(usize, Group<'_>)) {
        let shards = (1 << bits).min(MAX_SHARDS);
        let mask = shards as u16 - 1;
        if self.count == 1 {
            self.count = 0;
            let group = Group {
                parts: &self.parts,
                order: &[0],
            };
            return visit(usize::from(self.parts[0].shard & mask), group);
        }
        let mut ends = [0u8; MAX_SHARDS];
        for part in &self.parts[..self.count] {
            ends[usize::from(part.shard & mask)] += 1;
        }
        let mut sum = 0;
        for end in &mut ends[..shards] {
            sum += *end;
            *end = sum;
        }
        // The loop runs backwards, so that the order within a shard is kept.
        for at in (0..self.count).rev() {
            let end = &mut ends[usize::from(self.parts[at].shard & mask)];
            *end -= 1;
            self.order[usize::from(*end) % MAX_PARTS] = at as u8;
        }
        let mut start = 0;
        while start < self.count {
            let shard = self.parts[usize::from(self.order[start]) % MAX_PARTS].shard & mask;
            let next = ends[..shards].get(usize::from(shard) + 1..);
            // Each entry of `ends` was lowered to the start of its shard above, so that the next
            // shard's entry is the end of this one.
            let end = next
                .and_then(|next| next.first())
                .map_or(self.count, |end| usize::from(*end));
            let group = Group {
                parts: &self.parts,
                order: &self.order[start..end],
            };
            visit(usize::from(shard), group);
            start = end;
        }
        self.count = 0;
    }
}

/// The parts of a batch that belong to one shard.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    parts: &'a [Part; MAX_PARTS],
    order: &'a [u8],
}

impl<'a> Group<'a> {
    /// Returns the number of parts.
    pub const fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether there are no parts.
    pub const fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the parts, in the order in which they were added.
    pub fn parts(&self) -> impl Iterator<Item = &'a Part> {
        let parts = self.parts;
        self.order
            .iter()
            .map(move |at| &parts[usize::from(*at) % MAX_PARTS])
    }
}

const _: () = assert!(MAX_PARTS <= 256 && MAX_PARTS.is_power_of_two());
