// SPDX-License-Identifier: GPL-2.0

//! Files that have blocks: a block knows its file by a number.

use super::arena::{Arena, Piece};
use super::batch::Part;
use super::block::NUMBER_BITS;
use super::segment::Kind;
use super::{Storage, Store, NONE};
use ddabi::key::FileKey;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Blocks of a file that may learn a new number of it at once. The number of a larger file stays.
const MOVABLE: usize = 64;

/// A file, or a free place for one.
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub(super) struct File {
    key: FileKey,
    /// The hash of its key.
    hash: u64,
    /// First block; [`NONE`] if the place is free.
    first: u32,
    /// Next in the bucket; in a free place its neighbours are in `hash`.
    chain: u32,
}

const _: () = assert!(size_of::<File>() == 32);

impl File {
    #[inline]
    pub(super) const fn key(&self) -> &FileKey {
        &self.key
    }

    #[inline]
    pub(super) const fn hash(&self) -> u64 {
        self.hash
    }

    #[inline]
    pub(super) const fn first(&self) -> u32 {
        self.first
    }

    #[inline]
    pub(super) fn set_first(&mut self, first: u32) {
        self.first = first;
    }

    #[inline]
    pub(super) const fn chain(&self) -> u32 {
        self.chain
    }

    pub(super) fn set_chain(&mut self, chain: u32) {
        self.chain = chain;
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
        (self.hash as u32, (self.hash >> 32) as u32)
    }

    fn set_free(&mut self, before: u32, after: u32) {
        *self = Self {
            hash: u64::from(before) | u64::from(after) << 32,
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
        if self.files.used == 0 {
            return NONE;
        }
        self.find_file_from(self.file_head(hash).candidate(hash as u32), key)
    }

    /// The number of a file in a chain from `number` on.
    #[inline]
    pub(super) fn find_file_from(&self, mut number: u32, key: &FileKey) -> u32 {
        while number != NONE && self.file(number).key != *key {
            number = self.file(number).chain;
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
        *self.file_mut(number) = File {
            key: part.file,
            hash: part.file_hash,
            first: NONE,
            chain: NONE,
        };
        self.link_file(number);
        number
    }

    /// Forgets a file without blocks.
    pub(super) fn remove_file(&mut self, number: u32) {
        let file = *self.file(number);
        self.unlink_file(number, file.chain, file.hash as u32);
        self.release::<File>(number);
        self.files_stuck = false;
    }

    /// Reads files, so that they are near when they are needed.
    pub(super) fn touch_files(&self, numbers: &[u32]) {
        let sum = numbers.iter().map(|number| self.file(*number).first);
        core::hint::black_box(sum.fold(0, |sum, word| sum ^ word));
    }

    /// Takes the highest number out of use: its file gets a free one. Says whether that was
    /// possible.
    pub(super) fn drop_file(&mut self) -> bool {
        let highest = self.files.high - 1;
        let file = *self.file(highest);
        if file.first == NONE {
            self.withdraw::<File>(highest);
        } else {
            if !self.is_movable(&file) {
                return false;
            }
            let target = self.vacancy::<File>();
            self.redirect_file(highest, target);
            *self.file_mut(target) = file;
            let mut block = file.first;
            while block != NONE {
                self.block_mut(block).set_file(target);
                block = self.block(block).after();
            }
        }
        *self.file_mut(highest) = File::default();
        self.lower_files();
        true
    }

    fn is_movable(&self, file: &File) -> bool {
        let mut block = file.first;
        for _ in 0..MOVABLE {
            if block == NONE {
                return true;
            }
            block = self.block(block).after();
        }
        false
    }
}
