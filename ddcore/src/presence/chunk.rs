// SPDX-License-Identifier: GPL-2.0-only

//! A chunk: the pages of a file that share a slot.

use super::bits::Bits;
use super::slots::{Link, Links, Slot};

/// Number of pages of a chunk.
pub const CHUNK_PAGES: u64 = 128;

/// Storage of one chunk.
#[derive(Clone, Debug)]
pub struct ChunkSlot {
    /// States of the pages.
    pub(super) bits: Bits,
    /// Index of the first page, divided by [`CHUNK_PAGES`].
    pub(super) number: u64,
    /// The file, or none if the slot is free.
    pub(super) file: Link,
    /// Chunk before this one in the file's list.
    pub(super) before: Link,
    /// Chunk after this one in the file's list.
    pub(super) after: Link,
    /// Whether a put of one of the pages began since the clock's hand last passed.
    pub(super) recent: bool,
    links: Links,
}

impl ChunkSlot {
    /// A free slot.
    pub const EMPTY: Self = Self {
        bits: Bits::EMPTY,
        number: 0,
        file: Link::NONE,
        before: Link::NONE,
        after: Link::NONE,
        recent: false,
        links: Links::EMPTY,
    };

    /// Returns the [`Slot::identity`] of chunk `number` of the file in `file`.
    #[inline]
    pub(super) fn identity_of(file: Link, number: u64) -> [u64; 2] {
        [number, u64::from(file.slot().unwrap_or(0))]
    }
}

impl Default for ChunkSlot {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Slot for ChunkSlot {
    #[inline]
    fn identity(&self) -> [u64; 2] {
        Self::identity_of(self.file, self.number)
    }

    fn links(&self) -> &Links {
        &self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    fn reset(&mut self) {
        *self = Self {
            links: self.links,
            ..Self::EMPTY
        };
    }
}

const _: () = assert!(size_of::<ChunkSlot>() <= 64);
const _: () = assert!(CHUNK_PAGES == u128::BITS as u64);
