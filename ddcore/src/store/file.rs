// SPDX-License-Identifier: GPL-2.0-only

//! Files that have blocks: a block knows its file by a number.

use super::arena::{Arena, Piece};
use super::batch::Part;
use super::block::{Name, NUMBER_BITS};
use super::segment::Kind;
use super::{Storage, Store, NONE};
use ddabi::key::FileKey;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Indices of blocks that may be looked up at once to tell them a new number of their file. The
/// number of a larger file stays.
const MOVABLE: u32 = 64;

/// A file, or a free place for one. It has no list of its blocks: they are looked up between the
/// first and the last one.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(super) struct File {
    key: FileKey,
    /// Blocks it has; none in a free place.
    count: u32,
    /// Next in the bucket.
    chain: u32,
    /// No block had a lower index. In a free place a neighbour.
    first: u32,
    /// No block had a higher index. In a free place the other neighbour.
    last: u32,
}

const _: () = assert!(size_of::<File>() == 32);

impl File {
    #[inline]
    pub(super) const fn key(&self) -> &FileKey {
        &self.key
    }

    /// Whether it is the file with this key, and not a free place.
    #[inline]
    pub(super) fn is(&self, key: &FileKey) -> bool {
        self.key == *key && self.count > 0
    }

    /// How many blocks it has.
    #[cfg(test)]
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    /// The indices between which its blocks are.
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

    /// Counts a block that came.
    #[inline]
    pub(super) fn add(&mut self, index: u32) {
        self.count += 1;
        self.first = self.first.min(index);
        self.last = self.last.max(index);
    }

    /// Counts a block that went. Returns whether others are left.
    #[inline]
    pub(super) fn remove(&mut self) -> bool {
        self.count -= 1;
        self.count > 0
    }
}

impl Piece for File {
    const KIND: Kind = Kind::Files;
    const LIMIT: usize = 1 << NUMBER_BITS;

    fn arena<S>(store: &Store<S>) -> &Arena {
        &store.files
    }

    fn arena_mut<S>(store: &mut Store<S>) -> &mut Arena {
        &mut store.files
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

impl<S: Storage> Store<S> {
    #[inline]
    pub(super) fn file(&self, number: u32) -> &File {
        self.item(Kind::Files, number)
    }

    #[inline]
    pub(super) fn file_mut(&mut self, number: u32) -> &mut File {
        self.item_mut(Kind::Files, number)
    }

    /// The number of a file, if it has blocks.
    pub(super) fn find_file(&self, key: &FileKey, hash: u64) -> u32 {
        self.find_file_from(self.file_candidate(hash as u32), key, hash as u32)
    }

    /// The number of a file, if it is a candidate or one behind it.
    #[inline]
    pub(super) fn find_file_from(&self, mut number: u32, key: &FileKey, hash: u32) -> u32 {
        while number != NONE && self.file(number).key != *key {
            number = self.next_file(number, hash);
        }
        number
    }

    /// A number for a file that has none; it has no block yet. The caller has seen that there is
    /// room.
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

    /// Forgets a file without blocks.
    #[inline(never)]
    pub(super) fn remove_file(&mut self, number: u32) {
        let file = *self.file(number);
        let hash = self.hasher.file(&file.key) as u32;
        self.unlink_file(number, file.chain, hash);
        self.release::<File>(number);
        self.files_stuck = false;
    }

    /// Reads files, so that they are near when they are needed.
    #[inline]
    pub(super) fn touch_files(&self, numbers: &[u32]) {
        let sum = numbers.iter().map(|number| self.file(*number).count);
        core::hint::black_box(sum.fold(0, |sum, word| sum ^ word));
    }

    /// Takes the highest number out of use: its file gets a free one. Returns whether that was
    /// possible.
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

    /// Tells the blocks with an index the new number of their file.
    fn redirect_blocks(&mut self, (file_hash, index): (u64, u32), from: u32, to: u32) {
        let hash = self.hasher.block(file_hash, index);
        loop {
            let block = self.first_block(hash, Name::new(from, index));
            if block == NONE {
                break;
            }
            self.block_mut(block).set_file(to);
        }
    }
}
