// SPDX-License-Identifier: GPL-2.0-only

//! Files that have blocks. A block refers to its file by number.

use super::arena::{Arena, Piece};
use super::batch::Part;
use super::block::{BlockName, FILE_BITS};
use super::segment::Kind;
use super::{Index, Storage, NONE};
use ddabi::key::FileKey;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The largest number of indices that are looked up to change the number of a file, because all its
/// blocks have to be updated. A file with a larger range of indices keeps its number.
const MOVABLE: u32 = 64;

/// A file, or a free slot for one. It has no list of its blocks, which are found by looking up all
/// indices from the first to the last one.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(super) struct File {
    key: FileKey,
    /// Number of its blocks; 0 in a free slot.
    count: u32,
    /// The next file in the bucket's chain.
    chain: u32,
    /// Lower bound of its blocks' indices. In a free slot, the previous one in the list of free
    /// slots.
    first: u32,
    /// Upper bound of its blocks' indices. In a free slot, the next one in that list.
    last: u32,
}

const _: () = assert!(size_of::<File>() == 32);

impl File {
    #[inline]
    pub(super) const fn key(&self) -> &FileKey {
        &self.key
    }

    /// Returns whether it is the file with this key, and not a free slot.
    #[inline]
    pub(super) fn is(&self, key: &FileKey) -> bool {
        self.key == *key && self.count > 0
    }

    /// Returns the number of its blocks.
    #[cfg(test)]
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the bounds of its blocks' indices.
    pub(super) const fn extent(&self) -> (u32, u32) {
        (self.first, self.last)
    }

    #[inline]
    pub(super) const fn chain(&self) -> u32 {
        self.chain
    }

    pub(super) fn set_chain(&mut self, chain: u32) {
        self.chain = chain;
    }

    /// Counts an added block.
    #[inline]
    pub(super) fn add(&mut self, index: u32) {
        self.count += 1;
        self.first = self.first.min(index);
        self.last = self.last.max(index);
    }

    /// Counts a removed block. Returns whether the file has others.
    #[inline]
    pub(super) fn remove(&mut self) -> bool {
        self.count -= 1;
        self.count > 0
    }
}

impl Piece for File {
    const KIND: Kind = Kind::Files;
    const LIMIT: usize = 1 << FILE_BITS;

    fn arena<S>(index: &Index<S>) -> &Arena {
        &index.files
    }

    fn arena_mut<S>(index: &mut Index<S>) -> &mut Arena {
        &mut index.files
    }

    fn free_links(&self) -> (u32, u32) {
        (self.first, self.last)
    }

    fn set_free(&mut self, before: u32, after: u32) {
        *self = Self {
            first: before,
            last: after,
            ..Self::default()
        };
    }
}

impl<S: Storage> Index<S> {
    #[inline]
    pub(super) fn file(&self, number: u32) -> &File {
        self.item(Kind::Files, number)
    }

    #[inline]
    pub(super) fn file_mut(&mut self, number: u32) -> &mut File {
        self.item_mut(Kind::Files, number)
    }

    /// Returns the number of a file, or [`NONE`] if it has no blocks.
    pub(super) fn find_file(&self, key: &FileKey, hash: u64) -> u32 {
        self.find_file_from(self.file_candidate(hash as u32), key, hash as u32)
    }

    /// Returns the number of a file, searching from a candidate on, or [`NONE`].
    #[inline]
    pub(super) fn find_file_from(&self, mut number: u32, key: &FileKey, hash: u32) -> u32 {
        while number != NONE && self.file(number).key != *key {
            number = self.next_file(number, hash);
        }
        number
    }

    /// Adds a file that has no blocks yet, and returns its number. The caller has checked that
    /// there is room.
    pub(super) fn add_file(&mut self, part: &Part) -> u32 {
        let mut number = self.reuse::<File>();
        if number == NONE {
            number = self.files.high;
            self.files.used += 1;
            self.raise_files();
        }
        let chain = self.link_file(number, part.file_hash as u32);
        *self.file_mut(number) = File {
            key: part.file,
            count: 0,
            chain,
            first: u32::MAX,
            last: 0,
        };
        number
    }

    /// Removes a file without blocks.
    #[inline(never)]
    pub(super) fn remove_file(&mut self, number: u32) {
        let file = *self.file(number);
        let hash = self.hasher.file(&file.key) as u32;
        self.unlink_file(number, file.chain, hash);
        self.release::<File>(number);
        self.files_stuck = false;
    }

    /// Reads files into the processor's caches.
    #[inline]
    pub(super) fn touch_files(&self, numbers: &[u32]) {
        let sum = numbers.iter().map(|number| self.file(*number).count);
        core::hint::black_box(sum.fold(0, |sum, word| sum ^ word));
    }

    /// Takes the highest number of a file out of use. If a file has this number, it moves to a free
    /// one. Returns whether that was possible.
    pub(super) fn drop_file(&mut self) -> bool {
        let highest = self.files.high - 1;
        let file = *self.file(highest);
        if file.count == 0 {
            self.withdraw::<File>(highest);
        } else {
            if file.last - file.first >= MOVABLE {
                return false;
            }
            let target = self.vacancy::<File>();
            let hash = self.hasher.file(&file.key);
            self.redirect_file(highest, target, hash as u32);
            *self.file_mut(target) = file;
            for index in file.first..=file.last {
                self.redirect_blocks((hash, index), highest, target);
            }
        }
        *self.file_mut(highest) = File::default();
        self.lower_files();
        true
    }

    /// Updates the number of the file in its blocks with one index.
    fn redirect_blocks(&mut self, (file_hash, index): (u64, u32), from: u32, to: u32) {
        let hash = self.hasher.block(file_hash, index);
        loop {
            let block = self.first_block(hash, BlockName::new(from, index));
            if block == NONE {
                break;
            }
            self.block_mut(block).set_file(to);
        }
    }
}
