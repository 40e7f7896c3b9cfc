// SPDX-License-Identifier: GPL-2.0-only

//! Many pages at once: their keys are hashed, split into parts of blocks and sorted by shard
//! before any lock is taken.

use super::block::{BLOCK_PAGES, MAX_KEPT_INDEX};
use super::hash::{in_group, Hasher, BLOCK_BITS};
use ddabi::key::{FileKey, PageKey};

/// Most parts in a batch: more misses than that no processor overlaps.
pub const MAX_PARTS: usize = 32;

/// Most shards among which a batch can be sorted.
pub const MAX_SHARDS: usize = 64;

/// Pages of one block.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    pub(super) file: FileKey,
    pub(super) file_hash: u64,
    pub(super) block: u32,
    /// Of the block, inside its shard.
    pub(super) hash: u32,
    pub(super) mask: u16,
    pub(super) pool: u16,
    pages: u16,
    place: u16,
    shard: u16,
}

impl Part {
    /// Its pages' number.
    pub const fn pages(&self) -> usize {
        self.pages as usize
    }

    /// The list to which its pages belong, as told to [`Batch::add`].
    #[inline]
    pub const fn list(&self) -> u16 {
        self.pool
    }

    /// Where its first page stands among the caller's, as told to [`Batch::add`].
    pub const fn place(&self) -> usize {
        self.place as usize
    }

    /// Where the page stands among the caller's that is at this place of the block.
    pub(super) const fn place_of(&self, page: u32) -> usize {
        self.place as usize + (page - self.mask.trailing_zeros()) as usize
    }

    /// A single page, for those who have but one.
    pub(super) fn single(hasher: &Hasher, key: &PageKey) -> Self {
        let file_hash = hasher.file(&key.file);
        let block = (key.index >> BLOCK_BITS) as u32;
        let known = key.index <= MAX_KEPT_INDEX;
        Self {
            file: key.file,
            file_hash,
            block,
            hash: hasher.block(file_hash, block),
            mask: u16::from(known) << (key.index % BLOCK_PAGES as u64),
            ..Self::default()
        }
    }
}

/// Parts of blocks, sorted by shard.
#[derive(Debug)]
pub struct Batch {
    parts: [Part; MAX_PARTS],
    /// Numbers of the parts, those of a shard together.
    order: [u8; MAX_PARTS],
    count: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// An empty batch.
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
            pool: 0,
            pages: 0,
            place: 0,
            shard: 0,
        };
        Self {
            parts: [EMPTY; MAX_PARTS],
            order: [0; MAX_PARTS],
            count: 0,
        }
    }

    /// Whether nothing was added.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds `pages` pages from `first` on, the first of which stands at `place` among the
    /// caller's. Returns the number of pages that found room. `pool` owns those that are inserted.
    /// Pages beyond [`MAX_KEPT_INDEX`] are passed over.
    ///
    /// `place + pages` is at most 65536.
    pub fn add(
        &mut self,
        hasher: &Hasher,
        first: &PageKey,
        pages: usize,
        (place, pool): (usize, u16),
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
            let block = (index >> BLOCK_BITS) as u32;
            let group = hasher.group(file, block);
            *part = Part {
                file: first.file,
                file_hash: file,
                block,
                hash: in_group(group, block),
                mask,
                pool,
                pages: count as u16,
                place: (place + done) as u16,
                shard: (group >> 56) as u16,
            };
            self.count += 1;
            done += count;
        }
        done
    }

    /// Sorts the parts by shard, of `1 << bits` shards; at most [`MAX_SHARDS`]. Calls `visit` with
    /// the number of each shard that has parts, and these.
    pub fn by_shard(&mut self, bits: u32, mut visit: impl FnMut(usize, Group<'_>)) {
        let shards = (1 << bits).min(MAX_SHARDS);
        let mask = shards as u16 - 1;
        let mut ends = [0u8; MAX_SHARDS];
        for part in &self.parts[..self.count] {
            ends[usize::from(part.shard & mask)] += 1;
        }
        let mut sum = 0;
        for end in &mut ends[..shards] {
            sum += *end;
            *end = sum;
        }
        // From the last to the first, so that the order within a shard is kept.
        for at in (0..self.count).rev() {
            let end = &mut ends[usize::from(self.parts[at].shard & mask)];
            *end -= 1;
            self.order[usize::from(*end) % MAX_PARTS] = at as u8;
        }
        let mut start = 0;
        while start < self.count {
            let shard = self.parts[usize::from(self.order[start]) % MAX_PARTS].shard & mask;
            let next = ends[..shards].get(usize::from(shard) + 1..);
            // What was an end is a start now.
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
    /// Their number.
    pub const fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The parts, in the order in which they were added.
    pub fn parts(&self) -> impl Iterator<Item = &'a Part> {
        let parts = self.parts;
        self.order
            .iter()
            .map(move |at| &parts[usize::from(*at) % MAX_PARTS])
    }
}

const _: () = assert!(MAX_PARTS <= 256 && MAX_PARTS.is_power_of_two());
