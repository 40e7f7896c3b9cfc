// SPDX-License-Identifier: GPL-2.0

//! Pages that come.

use super::arena::Piece;
use super::batch::{Group, Part, MAX_PARTS};
use super::block::{Block, Content, Name, Position, BLOCK_PAGES, MAX_HANDLE};
use super::bucket::Head;
use super::file::File;
use super::leaf::{Leaf, Owner};
use super::segment::Kind;
use super::{Reason, Removed, Storage, Store, NONE};

impl<S: Storage> Store<S> {
    /// Of which kind there must be another segment before `parts` parts can be inserted for
    /// certain. To be asked again after it was supplied.
    pub fn lack(&self, parts: usize) -> Option<Kind> {
        let lacks = |kind: &Kind| {
            let (capacity, limit, used) = match kind {
                Kind::Blocks => (
                    self.capacity::<Block>(*kind),
                    Block::LIMIT,
                    self.blocks.used,
                ),
                Kind::Buckets => (self.capacity::<Head>(*kind), Block::LIMIT, self.blocks.used),
                Kind::Files => (self.capacity::<File>(*kind), File::LIMIT, self.files.used),
                Kind::FileBuckets => (self.capacity::<Head>(*kind), File::LIMIT, self.files.used),
                Kind::Leaves => (self.capacity::<Leaf>(*kind), Leaf::LIMIT, self.leaves.used),
                Kind::Owners => (self.capacity::<Owner>(*kind), Leaf::LIMIT, self.leaves.used),
            };
            capacity < limit && capacity < 1 + used as usize + parts
        };
        Kind::ALL.into_iter().find(lacks)
    }

    /// Keeps the pages of a group's parts, each part as a whole or not at all; `stored` is told of
    /// those that are kept. `handles` has one for each of the caller's pages, by place, at most
    /// [`MAX_HANDLE`]; of the stamp the lower 20 bits count.
    ///
    /// Older copies are removed in any case and count as flushed; `sink` gets them like that of
    /// [`Store::take`]. A part is not kept if memory is missing, or if there is no such pool.
    pub fn insert(
        &mut self,
        group: &Group<'_>,
        stamp: u32,
        handles: &[u64],
        mut sink: impl FnMut(usize, Removed),
        mut stored: impl FnMut(&Part),
    ) {
        let guesses = self.warm(group);
        for (guess, part) in guesses.iter().zip(group.parts()) {
            let mut file = self.find_file_from(*guess, &part.file);
            if file == NONE {
                file = self.find_file(&part.file, part.file_hash);
            }
            let mut block = self.find_block(part, file);
            if block != NONE {
                let name = Name::new(file, part.block);
                self.remove_found(block, name, part, Reason::Flush, &mut sink);
                file = self.find_file(&part.file, part.file_hash);
                block = self.find_block(part, file);
            }
            if let Some(handles) = handles.get(part.place()..part.place() + part.pages()) {
                if self.add_all(part, (file, block), stamp, handles) {
                    stored(part);
                }
            }
        }
    }

    /// Adds the pages of a part, none of which is kept, or refuses. `file` and `block` are what
    /// was found of them.
    #[inline]
    fn add_all(&mut self, part: &Part, at: (u32, u32), stamp: u32, handles: &[u64]) -> bool {
        if usize::from(part.pool) >= self.storage.lists().len() {
            return false;
        }
        let parts = pieces(handles);
        let room = self.room::<Block>().min(self.leaf_room());
        if parts == 0 || room < parts || self.room::<File>() == 0 {
            return false;
        }
        if parts == 1 {
            self.add(part, at, part.mask, stamp, handles);
            return true;
        }
        let mut first = part.mask.trailing_zeros();
        for handles in handles.chunk_by(|one, next| upper(*one) == upper(*next)) {
            let file = self.find_file(&part.file, part.file_hash);
            let block = self.find_block(part, file);
            let mask = u16::MAX >> (BLOCK_PAGES - handles.len()) << first;
            self.add(part, (file, block), mask, stamp, handles);
            first += handles.len() as u32;
        }
        true
    }

    /// Adds pages whose handles have the same upper bits. There is room.
    #[inline]
    fn add(
        &mut self,
        part: &Part,
        (mut file, mut block): (u32, u32),
        mask: u16,
        stamp: u32,
        handles: &[u64],
    ) {
        let high = upper(handles[0]);
        while block != NONE {
            let kept = self.block(block);
            if kept.pool() == part.pool && kept.high() == high {
                break;
            }
            block = self.find_block_from(kept.chain(), kept.name());
        }
        if block == NONE {
            if file == NONE {
                file = self.add_file(part);
            }
            self.add_block(part, file, mask, stamp, handles);
        } else {
            self.renew(block, (part.pool, stamp));
            self.extend(block, mask, handles);
        }
        let pages = handles.len() as u64;
        let list = self.list_mut(part.pool);
        list.used += pages;
        list.puts += pages;
        self.pages += pages;
    }

    /// A block at the head of all its lists.
    #[inline]
    fn add_block(&mut self, part: &Part, file: u32, mask: u16, stamp: u32, handles: &[u64]) {
        let mut number = self.reuse::<Block>();
        if number == NONE {
            number = self.blocks.high;
            self.blocks.used += 1;
            self.raise_blocks();
        }
        let place = self.file_mut(file);
        let after = place.first();
        place.set_first(number);
        if after != NONE {
            self.block_mut(after).set_before(number);
        }
        let chain = self.chain_block(number, part.hash);
        let older = self.push_newest(part.pool, number);
        let body = if handles.len() > 1 {
            let leaf = self.allocate_leaf(number);
            self.write_leaf(leaf, mask, handles);
            leaf
        } else {
            handles[0] as u32
        };
        *self.block_mut(number) = Block::new(
            Name::new(file, part.block),
            (part.pool, stamp),
            &Position {
                chain,
                older,
                after,
            },
            &Content {
                mask,
                body,
                high: upper(handles[0]),
            },
        );
    }

    /// Gives a block pages it does not have.
    pub(super) fn extend(&mut self, number: u32, mask: u16, handles: &[u64]) {
        let block = self.block_mut(number);
        let (before, body, had_leaf) = (block.present(), block.body(), block.has_leaf());
        block.set_present(before | mask);
        let leaf = if had_leaf {
            body
        } else {
            let leaf = self.allocate_leaf(number);
            self.block_mut(number).set_body(leaf);
            self.leaf_mut(leaf)[before.trailing_zeros() as usize % BLOCK_PAGES] = body;
            leaf
        };
        self.write_leaf(leaf, mask, handles);
    }

    fn write_leaf(&mut self, leaf: u32, mask: u16, handles: &[u64]) {
        let start = mask.trailing_zeros() as usize;
        if let Some(places) = self.leaf_mut(leaf).get_mut(start..) {
            for (place, handle) in places.iter_mut().zip(handles) {
                *place = *handle as u32;
            }
        }
    }

    /// Reads what [`Self::insert`] will touch, without waiting for one cache line after the other.
    /// Says where each part's file may be.
    #[inline]
    fn warm(&self, group: &Group<'_>) -> [u32; MAX_PARTS] {
        let mut files = [NONE; MAX_PARTS];
        if self.pages == 0 {
            return files;
        }
        let mut blocks = [NONE; MAX_PARTS];
        for ((file, block), part) in files.iter_mut().zip(&mut blocks).zip(group.parts()) {
            *file = self
                .file_head(part.file_hash)
                .candidate(part.file_hash as u32);
            *block = self.block_head(part).candidate(part.hash);
        }
        if self.is_far() {
            let count = group.len().min(MAX_PARTS);
            self.touch(&blocks[..count]);
            for (block, file) in blocks[..count].iter_mut().zip(&files) {
                *block = self.file(*file).first();
            }
            self.touch(&blocks[..count]);
        }
        files
    }
}

/// The bits of a handle that all pages of a block share.
const fn upper(handle: u64) -> u32 {
    (handle >> 32) as u32
}

/// Of how many blocks handles make parts, for their upper bits differ: none if one is too large.
#[inline]
fn pieces(handles: &[u64]) -> usize {
    let Some(first) = handles.first() else {
        return 0;
    };
    let differences = handles
        .iter()
        .fold(0, |bits, handle| bits | (handle ^ first));
    if upper(differences) == 0 {
        return usize::from(*first <= MAX_HANDLE);
    }
    if handles.iter().any(|handle| *handle > MAX_HANDLE) {
        return 0;
    }
    let changes = handles
        .windows(2)
        .filter(|pair| upper(pair[0]) != upper(pair[1]));
    1 + changes.count()
}
