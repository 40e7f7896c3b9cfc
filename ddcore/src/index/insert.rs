// SPDX-License-Identifier: GPL-2.0-only

//! Insertion of pages.

use super::arena::{Piece, NUMBERS};
use super::batch::{Group, Part, MAX_PARTS};
use super::block::{Block, BlockName, BLOCK_PAGES, MAX_BLOCKS, MAX_HANDLE, PLACED};
use super::bucket::{Bucket, LOAD};
use super::cohort::{Cohort, Members};
use super::fifo::Sum;
use super::file::File;
use super::file_bucket::FileBucket;
use super::leaf::{Leaf, Owner};
use super::segment::{Item, Kind};
use super::spill::Spill;
use super::{Index, Reason, Removed, Storage, NONE, STAMP_BITS};

impl<S: Storage> Index<S> {
    /// Returns the kind of which another segment must be provided so that the insertion of `parts`
    /// parts cannot fail, or `None`. The caller calls this again after each segment.
    pub fn lack(&mut self, parts: usize) -> Option<Kind> {
        if self.room as usize >= parts {
            return None;
        }
        self.look_for_room();
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
        let segments = self.storage.segments(kind);
        let (each, limit, used) = match kind {
            Kind::Buckets => {
                // Bucket 0 is not used.
                let buckets = (segments * Bucket::EACH as usize).saturating_sub(1);
                let blocks = buckets * LOAD as usize + 1;
                return (blocks, MAX_BLOCKS, self.blocks.used as usize);
            }
            Kind::Spills => {
                // A piece needs two spills if its bucket overflows for the first time.
                let spills = segments * Spill::EACH as usize;
                let used = (self.spills.used as usize).div_ceil(2);
                return (spills / 2, MAX_BLOCKS, used);
            }
            Kind::Files => (File::EACH, File::LIMIT, self.files.used),
            Kind::FileBuckets => (FileBucket::EACH * NUMBERS, File::LIMIT, self.files.used),
            Kind::Leaves => (Leaf::EACH, Leaf::LIMIT, self.leaves.used),
            Kind::Owners => (Owner::EACH, Leaf::LIMIT, self.leaves.used),
            Kind::Cohorts => (Cohort::EACH, Cohort::LIMIT, self.cohorts.used),
            Kind::Members => (Members::EACH, Cohort::LIMIT, self.cohorts.used),
        };
        (segments * each as usize, limit, used as usize)
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
        // The bound keeps the number within its type; the next call finds further room.
        self.room = least.unwrap_or(0).min(1 << 16) as u32;
    }

    /// Inserts the pages of a group, each part as a whole or not at all, and calls `stored` for
    /// each part that was inserted. `handles` has the handles of the caller's pages by position, at
    /// most [`MAX_HANDLE`] each. The lower [`STAMP_BITS`](super::STAMP_BITS) of the stamp are kept.
    ///
    /// Older copies are removed in any case and count as flushed; `sink` receives them as in
    /// [`Index::take`]. A part is not inserted if memory is missing or its list does not exist.
    pub fn insert(
        &mut self,
        group: &Group<'_>,
        stamp: u64,
        handles: &[u64],
        mut sink: impl FnMut(usize, Removed),
        mut stored: impl FnMut(&Part),
    ) {
        let mut files = [NONE; MAX_PARTS];
        self.warm(group, &mut files);
        // Whether files were added or removed since the lookup, so that its results may be
        // outdated.
        let (mut files_added, mut files_removed) = (false, false);
        let mut sum = Sum::default();
        for (&candidate, part) in files.iter().zip(group.parts()) {
            if candidate != NONE && !files_removed {
                if let Some([handle]) = handles.get(part.position()..part.position() + part.pages())
                {
                    if self.add_single(part, candidate, stamp, *handle) {
                        if let Some(others) = sum.add(part.list) {
                            self.added(others);
                        }
                        stored(part);
                        continue;
                    }
                }
            }
            // Pages that are not counted yet may be replaced below as older copies, so that they
            // are counted first.
            self.added(core::mem::take(&mut sum));
            let mut file = NONE;
            if candidate != NONE && !files_removed {
                file = self.find_file_from(candidate, &part.file, part.file_hash as u32);
            }
            if file == NONE && (files_added || files_removed) {
                file = self.find_file(&part.file, part.file_hash);
            }
            let mut block = self.find_block(part, file);
            if block != NONE {
                (file, block) = self.replace((file, block), part, &mut sink);
                files_removed = true;
            }
            if let Some(handles) = handles.get(part.position()..part.position() + part.pages()) {
                files_added |= file == NONE;
                if self.add_all(part, (file, block), stamp, handles) {
                    stored(part);
                }
            }
        }
        self.added(sum);
    }

    /// Adds a page as a new block if its file is `candidate`. Returns `false` without adding it if
    /// that is not its file, if there is already a block with this index, or if the general path is
    /// needed for another reason. The caller counts the page.
    #[inline(always)]
    fn add_single(&mut self, part: &Part, candidate: u32, stamp: u64, handle: u64) -> bool {
        if self.room == 0
            || handle > MAX_HANDLE
            || usize::from(part.list) >= self.storage.lists().len()
        {
            return false;
        }
        let file = self.file_mut(candidate);
        if !file.is(&part.file) {
            return false;
        }
        file.add(part.block);
        let name = BlockName::new(candidate, part.block);
        let Some(number) = self.add_place_unless(part.hash, name) else {
            // The bounds of its indices may stay too wide, which is harmless.
            self.file_mut(candidate).remove();
            return false;
        };
        self.room -= 1;
        let position = self.join(number, (part.list, stamp));
        let block = Block::single(name, part.mask.trailing_zeros(), handle, position);
        *self.block_mut(number) = block;
        true
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
        if block != NONE {
            block = self.find_alike(block, part.list, stamp, handles[0]);
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
        self.added(Sum::new(part.list, handles.len() as u64));
    }

    /// Returns the first block that can take pages with this handle and stamp in a list, or
    /// [`NONE`]. The search begins with block `number` and continues with the following blocks of
    /// the same name. A block can take only handles that have its upper bits, and only places of
    /// one stamp.
    fn find_alike(&self, mut number: u32, list: u16, stamp: u64, handle: u64) -> u32 {
        let has_stamp =
            |block: &Block| (self.stamp(block.position()) ^ stamp) & ((1 << STAMP_BITS) - 1) == 0;
        while number != NONE {
            let block = self.block(number);
            let is_alike = self.list_of_block(block) == list && self.high(block) == upper(handle);
            if is_alike && (handle & PLACED == 0 || has_stamp(block)) {
                break;
            }
            number = self.next_block(number);
        }
        number
    }

    /// Adds a block.
    #[inline]
    fn add_block(&mut self, part: &Part, file: u32, mask: u16, stamp: u64, handles: &[u64]) {
        self.file_mut(file).add(part.block);
        let number = self.add_place(part.hash);
        let position = self.join(number, (part.list, stamp));
        let name = BlockName::new(file, part.block);
        *self.block_mut(number) = match handles {
            [handle] => Block::single(name, mask.trailing_zeros(), *handle, position),
            _ => {
                let leaf = self.allocate_leaf(number, upper(handles[0]));
                self.write_leaf(leaf, mask, handles);
                Block::several(name, mask, leaf, position)
            }
        };
    }

    /// Adds pages to a block that does not have them.
    pub(super) fn extend(&mut self, number: u32, mask: u16, handles: &[u64]) {
        let block = *self.block(number);
        if block.has_leaf() {
            self.write_leaf(block.leaf(), mask, handles);
            self.block_mut(number).set_present(block.present() | mask);
            return;
        }
        let handle = block.only_handle();
        let leaf = self.allocate_leaf(number, upper(handle));
        self.leaf_mut(leaf)[block.page() as usize % BLOCK_PAGES] = handle as u32;
        self.write_leaf(leaf, mask, handles);
        let present = block.present() | mask;
        *self.block_mut(number) = Block::several(block.name(), present, leaf, block.position());
    }

    fn write_leaf(&mut self, leaf: u32, mask: u16, handles: &[u64]) {
        let start = mask.trailing_zeros() as usize;
        if let Some(places) = self.leaf_mut(leaf).get_mut(start..) {
            for (place, handle) in places.iter_mut().zip(handles) {
                *place = *handle as u32;
            }
        }
    }

    /// Reads the memory that [`Self::insert`] will access into the processor's caches, without
    /// waiting for one cache line after the other. Writes the candidates for the files.
    #[inline]
    fn warm(&self, group: &Group<'_>, files: &mut [u32; MAX_PARTS]) {
        if self.pages == 0 {
            return;
        }
        let far = self.is_far();
        let mut sum = 0;
        for (file, part) in files.iter_mut().zip(group.parts()) {
            *file = self.file_candidate(part.file_hash as u32);
            if far {
                sum ^= self.touch_bucket(part.hash);
            }
        }
        core::hint::black_box(sum);
        if self.are_files_far() {
            self.touch_files(&files[..group.len().min(MAX_PARTS)]);
        }
    }
}

/// Returns the upper bits of a handle, which are the same for all pages of a block.
const fn upper(handle: u64) -> u32 {
    (handle >> 32) as u32
}

/// Returns the number of blocks that the pages need because their handles differ in the upper bits,
/// or 0 if a handle is too large.
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
