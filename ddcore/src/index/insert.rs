// SPDX-License-Identifier: GPL-2.0-only

//! Insertion of pages.

use super::arena::{Piece, NUMBERS};
use super::batch::{Group, Part, MAX_PARTS};
use super::block::{Block, Content, Name, Position, BLOCK_PAGES, MAX_HANDLE, PLACED};
use super::bucket::Bucket;
use super::cohort::{Cohort, Members};
use super::file::File;
use super::leaf::{Leaf, Owner};
use super::segment::{Item, Kind};
use super::{Index, Reason, Removed, Storage, NONE};

impl<S: Storage> Index<S> {
    /// Returns the kind of which another segment must be provided before `parts` parts can be
    /// inserted without fail, or `None`. The caller asks again after each segment.
    pub fn lack(&mut self, parts: usize) -> Option<Kind> {
        if self.room as usize >= parts {
            return None;
        }
        let lacks = |kind: &Kind| {
            let (capacity, limit, used) = self.stock(*kind);
            capacity < limit && capacity < 1 + used + parts
        };
        Kind::ALL.into_iter().find(lacks)
    }

    /// Returns for a kind the number of items for which there is memory, the largest possible
    /// number, and the number in use.
    fn stock(&self, kind: Kind) -> (usize, usize, usize) {
        let (each, limit, used) = match kind {
            Kind::Blocks => (Block::EACH, Block::LIMIT, self.blocks.used),
            Kind::Buckets => (Bucket::EACH * NUMBERS, Block::LIMIT, self.blocks.used),
            Kind::Files => (File::EACH, File::LIMIT, self.files.used),
            Kind::FileBuckets => (Bucket::EACH * NUMBERS, File::LIMIT, self.files.used),
            Kind::Leaves => (Leaf::EACH, Leaf::LIMIT, self.leaves.used),
            Kind::Owners => (Owner::EACH, Leaf::LIMIT, self.leaves.used),
            Kind::Cohorts => (Cohort::EACH, Cohort::LIMIT, self.cohorts.used),
            Kind::Members => (Members::EACH, Cohort::LIMIT, self.cohorts.used),
        };
        let capacity = self.storage.segments(kind) * each as usize;
        (capacity, limit, used as usize)
    }

    /// Returns whether there is room for this many pieces, each of which needs at most one item of
    /// each kind.
    #[inline]
    pub(super) fn has_room(&mut self, pieces: u32) -> bool {
        if self.room < pieces {
            self.look_for_room();
        }
        self.room >= pieces
    }

    #[inline(never)]
    fn look_for_room(&mut self) {
        let room = |kind| {
            let (capacity, limit, used) = self.stock(kind);
            capacity.min(limit).saturating_sub(1 + used)
        };
        let least = Kind::ALL.into_iter().map(room).min();
        // The bound keeps the number within its type; any further room is found by the next look.
        self.room = least.unwrap_or(0).min(1 << 16) as u32;
    }

    /// Inserts the pages of a group, each part as a whole or not at all, and calls `stored` for
    /// each part that was inserted. `handles` has the handles of the caller's pages by position, at
    /// most [`MAX_HANDLE`] each. The lower [`STAMP_BITS`](super::STAMP_BITS) of the stamp are kept.
    ///
    /// Older copies are removed in any case and count as flushed; `sink` gets them as in
    /// [`Index::take`]. A part is not inserted if memory is missing or its list does not exist.
    pub fn insert(
        &mut self,
        group: &Group<'_>,
        stamp: u64,
        handles: &[u64],
        mut sink: impl FnMut(usize, Removed),
        mut stored: impl FnMut(&Part),
    ) {
        let files = self.warm(group);
        // Whether files were added or removed since the lookup, so that its results may be
        // outdated.
        let (mut came, mut went) = (false, false);
        for (candidate, part) in files.into_iter().zip(group.parts()) {
            let mut file = NONE;
            if candidate != NONE && !went {
                file = self.find_file_from(candidate, &part.file, part.file_hash as u32);
            }
            if file == NONE && (came || went) {
                file = self.find_file(&part.file, part.file_hash);
            }
            let mut block = self.block_candidate(part.hash);
            if block != NONE {
                let name = Name::new(file, part.block);
                block = self.find_block_from(block, part.hash, name);
                if block != NONE {
                    (file, block) = self.replace((file, block), part, &mut sink);
                    went = true;
                }
            }
            if let Some(handles) = handles.get(part.place()..part.place() + part.pages()) {
                came |= file == NONE;
                if self.add_all(part, (file, block), stamp, handles) {
                    stored(part);
                }
            }
        }
    }

    /// Removes older copies of a part. Returns its file and block, if they still exist.
    #[inline(never)]
    fn replace(
        &mut self,
        (file, block): (u32, u32),
        part: &Part,
        sink: &mut impl FnMut(usize, Removed),
    ) -> (u32, u32) {
        let key = *self.file(file).key();
        self.remove_found(block, part, Reason::Flush, sink);
        let file = self.find_file(&key, part.file_hash);
        (file, self.find_block(part, file))
    }

    /// Adds the pages of a part, none of which is in the index, or returns `false`. `at` has the
    /// file and the block, if they exist.
    #[inline]
    pub(super) fn add_all(
        &mut self,
        part: &Part,
        at: (u32, u32),
        stamp: u64,
        handles: &[u64],
    ) -> bool {
        let pieces = pieces(handles);
        if usize::from(part.list) >= self.storage.lists().len()
            || pieces == 0
            || !self.has_room(pieces)
        {
            return false;
        }
        self.room -= pieces;
        if pieces == 1 {
            self.add(part, at, part.mask, stamp, handles);
        } else {
            self.add_pieces(part, stamp, handles);
        }
        true
    }

    /// Adds a part whose handles differ in their upper bits.
    #[inline(never)]
    fn add_pieces(&mut self, part: &Part, stamp: u64, handles: &[u64]) {
        let mut first = part.mask.trailing_zeros();
        for handles in handles.chunk_by(|one, next| upper(*one) == upper(*next)) {
            let file = self.find_file(&part.file, part.file_hash);
            let block = self.find_block(part, file);
            let mask = u16::MAX >> (BLOCK_PAGES - handles.len()) << first;
            self.add(part, (file, block), mask, stamp, handles);
            first += handles.len() as u32;
        }
    }

    /// Adds pages whose handles have the same upper bits. The caller has checked that there is
    /// room.
    #[inline]
    fn add(
        &mut self,
        part: &Part,
        (mut file, mut block): (u32, u32),
        mask: u16,
        stamp: u64,
        handles: &[u64],
    ) {
        let high = handles.first().map_or(0, |handle| upper(*handle));
        while block != NONE {
            let kept = self.block(block);
            let is_alike = kept.list() == part.list && kept.high() == high;
            if is_alike && (high & upper(PLACED) == 0 || kept.has_stamp(stamp)) {
                break;
            }
            block = self.next_block(block, part.hash);
        }
        if block == NONE {
            if file == NONE {
                file = self.add_file(part);
            }
            self.add_block(part, file, mask, stamp, handles);
        } else {
            self.renew(block, (part.list, stamp));
            self.extend(block, mask, handles);
        }
        let pages = handles.len() as u64;
        let list = self.list_mut(part.list);
        list.used += pages;
        list.puts += pages;
        self.pages += pages;
    }

    /// Adds a block.
    #[inline]
    fn add_block(&mut self, part: &Part, file: u32, mask: u16, stamp: u64, handles: &[u64]) {
        let mut number = self.reuse::<Block>();
        if number == NONE {
            number = self.blocks.high;
            self.blocks.used += 1;
            self.raise_blocks();
        }
        self.file_mut(file).add(part.block);
        let chain = self.link_block(number, part.hash);
        let seat = self.join(part.list, number);
        let body = if handles.len() > 1 {
            let leaf = self.allocate_leaf(number);
            self.write_leaf(leaf, mask, handles);
            leaf
        } else {
            handles[0] as u32
        };
        *self.block_mut(number) = Block::new(
            (Name::new(file, part.block), part.hash),
            (part.list, stamp),
            &Position { chain, seat },
            &Content {
                mask,
                body,
                high: upper(handles[0]),
            },
        );
    }

    /// Adds pages to a block that does not have them.
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

    /// Reads the memory that [`Self::insert`] will touch, without waiting for one cache line after
    /// the other. Returns the candidates for the files.
    #[inline]
    fn warm(&self, group: &Group<'_>) -> [u32; MAX_PARTS] {
        let mut files = [NONE; MAX_PARTS];
        if self.pages == 0 {
            return files;
        }
        let far = self.is_far();
        for (file, part) in files.iter_mut().zip(group.parts()) {
            *file = self.file_candidate(part.file_hash as u32);
            if far {
                self.touch_bucket(part.hash);
            }
        }
        if far {
            self.touch_files(&files[..group.len().min(MAX_PARTS)]);
        }
        files
    }
}

/// Returns the bits of a handle that all pages of a block share.
const fn upper(handle: u64) -> u32 {
    (handle >> 32) as u32
}

/// Returns the number of blocks among which pages are divided because their handles differ in the
/// upper bits, or 0 if a handle is too large.
#[inline]
pub(super) fn pieces(handles: &[u64]) -> u32 {
    if let [handle] = handles {
        return u32::from(*handle <= MAX_HANDLE);
    }
    let Some(first) = handles.first() else {
        return 0;
    };
    let differences = handles
        .iter()
        .fold(0, |bits, handle| bits | (handle ^ first));
    if upper(differences) == 0 {
        return u32::from(*first <= MAX_HANDLE);
    }
    if handles.iter().any(|handle| *handle > MAX_HANDLE) {
        return 0;
    }
    let changes = handles
        .windows(2)
        .filter(|pair| upper(pair[0]) != upper(pair[1]));
    1 + changes.count() as u32
}
