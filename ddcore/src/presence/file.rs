// SPDX-License-Identifier: GPL-2.0

//! A file of which at least one page is not absent.

use super::slots::{Link, Links, Slot};
use ddabi::key::FileKey;

/// Storage of one file.
#[derive(Clone, Debug)]
pub struct FileSlot {
    /// The file. Its generation is that of all pages which are present or leaving.
    pub(super) key: FileKey,
    /// Newest chunk, head of the list of all its chunks.
    pub(super) first: Link,
    /// Number of its chunks; zero if the slot is free.
    pub(super) chunks: u32,
    links: Links,
}

impl FileSlot {
    /// A free slot.
    pub const EMPTY: Self = Self {
        key: FileKey {
            inode: 0,
            filesystem: 0,
            generation: 0,
        },
        first: Link::NONE,
        chunks: 0,
        links: Links::EMPTY,
    };
}

impl Default for FileSlot {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Slot for FileSlot {
    #[inline]
    fn identity(&self) -> u64 {
        self.key.inode_hash()
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

const _: () = assert!(size_of::<FileSlot>() <= 48);
