// SPDX-License-Identifier: GPL-2.0-only

//! Identifiers of pages in the simulator, and fast maps with pages as keys.

use crate::workload::ANONYMOUS;
use ddabi::key::{FileKey, PageKey, mix};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A page of a file of one VM.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Page(u64);

impl Page {
    /// Returns the page with this index in this file.
    pub const fn new(file: u32, index: u32) -> Self {
        Self((file as u64) << 32 | index as u64)
    }

    /// Returns the page after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Returns the page that is `pages` pages after this one.
    #[must_use]
    pub const fn after(self, pages: u64) -> Self {
        Self(self.0 + pages)
    }

    /// Returns whether the page belongs to process memory.
    pub const fn is_anonymous(self) -> bool {
        (self.0 >> 32) as u32 & ANONYMOUS != 0
    }

    /// Returns the key of the page in the store.
    pub const fn key(self) -> PageKey {
        PageKey {
            file: FileKey {
                inode: self.0 >> 32,
                filesystem: 1,
                generation: 0,
            },
            index: self.0 & u32::MAX as u64,
        }
    }
}

/// A map by page.
pub type PageMap<V> = HashMap<Page, V, BuildHasherDefault<PageHasher>>;

/// Hashes a page, which is a single word.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
    }
}
