// SPDX-License-Identifier: GPL-2.0-only

//! A file of which at least one page is not absent.

use super::slots::{Link, Links, Slot};
use ddabi::key::FileKey;

/// Storage of one file.
#[derive(Clone, Debug)]
pub struct FileSlot {
    /// The file. Its generation is that of all pages which are present or leaving.
    pub(super) key: FileKey,
    /// The newest chunk, which is the head of the list of all its chunks.
    pub(super) first: Link,
    /// Number of its chunks, or zero if the slot is free.
    pub(super) chunks: u32,
    /// Whether the inode has got another generation. Its pages are neither found nor put until
    /// those of the old generation have been invalidated in steps.
    pub(super) outdated: bool,
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
        outdated: false,
        links: Links::EMPTY,
    };

    /// Returns the [`Slot::identity`] of an inode, which does not depend on the generation.
    #[inline]
    pub(super) fn identity_of(key: &FileKey) -> [u64; 2] {
        key.inode_words()
    }
}

impl Default for FileSlot {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Slot for FileSlot {
    #[inline]
    fn identity(&self) -> [u64; 2] {
        Self::identity_of(&self.key)
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
